// The browser's key pair: with it a browser proves, in another network, that it is the one that earned its pass. The private
// half can't be read, by no script; both are kept for this origin in IndexedDB.

const asked = <T>(r: IDBRequest<T>) => new Promise<T>((resolve, reject) => {
  r.onsuccess = () => resolve(r.result);
  r.onerror = () => reject(r.error);
});

/** The key pair, made if there is none. Of two tabs that make one at once, the first decides. */
const pair = async (): Promise<CryptoKeyPair> => {
  const opening = indexedDB.open('antirobot', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore('keys');
  const db = await asked(opening);
  const keys = (mode: IDBTransactionMode) => db.transaction('keys', mode).objectStore('keys');
  try {
    const kept = await asked(keys('readonly').get(0));
    if (kept) return kept;
    const made = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']);
    await asked(keys('readwrite').add(made, 0)).catch(() => {});
    return await asked(keys('readonly').get(0));
  } finally {
    db.close();
  }
};

const prove = async (check: URL, key: string) => {
  const { publicKey, privateKey } = await pair();
  const text = new TextEncoder().encode(`antirobot\nPOST\n${check.origin}${check.pathname}\n${key}`);
  const point = new Uint8Array(await crypto.subtle.exportKey('raw', publicKey));
  const signature = new Uint8Array(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, privateKey, text));
  return '~' + btoa(String.fromCharCode(...point.subarray(1), ...signature)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
};

export type Proof = (check: string, key: string, ready?: Promise<unknown>) => Promise<string>;

/**
 * What is added to the answer to a challenge with that key: the public key and a signature; nothing where the browser has no
 * keys (no https, nothing may be stored) or takes a second longer than what it is sent with.
 */
export const proof: Proof = (check, key, ready = Promise.resolve()) => Promise.race([
  prove(new URL(check, location.href), key).catch(() => ''),
  ready.then(() => new Promise<string>((resolve) => { setTimeout(resolve, 1000, ''); })),
]);
