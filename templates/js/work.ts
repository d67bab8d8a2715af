// work.js solves a challenge without a puzzle: for each part p it finds the smallest n for which the first four bytes of
// SHA-256(seed, p, n) are a number below `below`. It is loaded on demand. As a Worker it takes a task as a message and
// sends back the share done so far, then the answer. In a page it is antirobotWork, which starts such a Worker; where the
// page may not start one (another origin, its policy), it works in slices of a few milliseconds.
//
// With the URL of a part of the page it makes the check of the browser: a little work, in the page itself, and the part; the
// answer is signed with the browser's key. Without a task, it makes the signature alone, for what is typed.

import { proof } from './keys';
import { run, sizeOf, type Progress, type Task } from './toil';

export type Toil = (url: string, task: Task | null, progress: Progress, signal: AbortSignal, part?: string) => Promise<string>;

/** Checks the browser. The challenge's key stands in the part's URL. */
const checked = async (task: Task | null, progress: Progress, signal: AbortSignal, part: string) => {
  const signed = proof(String(new URL('../checkcaptcha', part)), new URL(part).searchParams.get('key')!);
  return (await Promise.all(task ? [run(task, progress, signal), sizeOf(part), signed] : [signed])).join('');
};

const toil: Toil = (url, task, progress, signal, part) => part ? checked(task, progress, signal, part) : new Promise((resolve, reject) => {
  const here = () => run(task!, progress, signal).then(resolve, reject);
  let worker: Worker;
  try {
    worker = new Worker(url);
  } catch {
    return here();
  }
  const stop = () => { worker.terminate(); reject(signal.reason); };
  if (signal.aborted) return stop();
  signal.addEventListener('abort', stop);
  worker.onerror = () => { worker.terminate(); here(); };
  worker.onmessage = ({ data }) => {
    if (typeof data !== 'string') return progress(data);
    worker.terminate();
    resolve(data);
  };
  worker.postMessage(task);
});

declare const WorkerGlobalScope: unknown;

if (typeof WorkerGlobalScope === 'undefined') {
  (globalThis as unknown as { antirobotWork: Toil }).antirobotWork = toil;
} else {
  onmessage = async ({ data }) => postMessage(await run(data, postMessage));
}
