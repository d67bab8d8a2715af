// The work that challenges ask for: for each part p the smallest n for which the first four bytes of SHA-256(seed, p, n) are
// a number below `below`.

/** look: the check that the work belongs to is not for driven browsers. */
export interface Task { seed: string; parts: number; below: number; look?: boolean }
export type Progress = (share: number) => void;

// The constants of SHA-256: the fractions of the square and cube roots of the first primes.
const K = new Int32Array(64);
const H = new Int32Array(8);
for (let n = 2, found = 0; found < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
  if (!prime) continue;
  const fraction = (x: number) => ((x - Math.floor(x)) * 2 ** 32) | 0;
  if (found < 8) H[found] = fraction(n ** (1 / 2));
  K[found++] = fraction(n ** (1 / 3));
}

const W = new Int32Array(64);

/** The first four bytes of the hash of the 24 bytes in W[0] to W[5]. */
const first = (): number => {
  W[6] = 0x80000000 | 0;
  W.fill(0, 7, 15);
  W[15] = 24 * 8;
  for (let t = 16; t < 64; t++) {
    const x = W[t - 15]!;
    const y = W[t - 2]!;
    W[t] = (((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10) + W[t - 7]! + W[t - 16]!) | 0;
  }
  let a = H[0]!, b = H[1]!, c = H[2]!, d = H[3]!, e = H[4]!, f = H[5]!, g = H[6]!, h = H[7]!;
  for (let t = 0; t < 64; t++) {
    const x = (h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (e & f ^ ~e & g) + K[t]! + W[t]!) | 0;
    const y = (((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b ^ a & c ^ b & c)) | 0;
    h = g; g = f; f = e; e = (d + x) | 0; d = c; c = b; b = a; a = (x + y) | 0;
  }
  return (a + H[0]!) >>> 0;
};

/** Does the work in slices of a few milliseconds, or at one go without a signal. */
export const run = async (task: Task, progress: Progress, signal?: AbortSignal) => {
  const seed = (task.seed.match(/.{8}/g) ?? []).map((x) => parseInt(x, 16));
  const found: number[] = [];
  const pause = () => new Promise((go) => setTimeout(go));
  let until = performance.now() + 12;
  for (let part = 0; part < task.parts; part++) {
    let n = -1;
    do {
      if ((++n & 63) === 0 && signal && performance.now() > until) {
        await pause();
        signal.throwIfAborted();
        until = performance.now() + 12;
      }
      for (let i = 0; i < 4; i++) W[i] = seed[i]!; // another run may have used the array in the meantime
      W[4] = part;
      W[5] = n;
    } while (first() >= task.below);
    found.push(n);
    progress((part + 1) / task.parts);
  }
  return found.join('.');
};

/** The size of a part of the page, as an answer names it. */
export const sizeOf = (part: string) => new Promise<string>((resolve, reject) => {
  const image = new Image();
  image.onload = () => resolve('x' + (image.naturalWidth * 256 + image.naturalHeight));
  image.onerror = reject;
  image.src = part;
});
