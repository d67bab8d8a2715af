// work.js solves a challenge without a puzzle: for each part p it finds the smallest n for which the first four bytes of
// SHA-256(seed, p, n) are a number below `below`. It is loaded on demand. As a Worker it takes a task as a message and
// sends back the share done so far, then the answer. In a page it is antirobotWork, which starts such a Worker; where the
// page may not start one (another origin, its policy), it works in slices of a few milliseconds.
//
// With the URL of a part of the page it makes the check of the browser: a little work, in the page itself, and the part; the
// answer is signed with the browser's key. Without a task, it makes the signature alone, for what is typed.
//
// With a wait in place of a task, it counts that down in words.

import type { Texts, WaitKey } from './antirobot';
import { undriven } from './driven';
import { proof } from './keys';
import { run, sizeOf, type Progress, type Task } from './toil';

/** A wait that is told in p. */
interface Wait { t: Texts; p: HTMLElement; seconds: number }
export type Toil = (url: string, task: Task | Wait | null, progress: Progress, signal: AbortSignal, part?: string) => Promise<string>;

/** Checks the browser; rejects where that is driven. The challenge's key stands in the part's URL. */
const checked = async (task: Task | null, progress: Progress, signal: AbortSignal, part: string) => {
  const answer = Promise.all(task ? [undriven(task).then(() => run(task, progress, signal)), sizeOf(part)] : []);
  const [parts, signed] = await Promise.all([answer, proof(String(new URL('../checkcaptcha', part)), new URL(part).searchParams.get('key')!, answer)]);
  return parts.join('') + signed;
};

/**
 * Counts a wait down in p, whose first text is read out and no other one. Resolves when it is over and somebody looks at
 * the tab; rejects once p has another text, or signal is aborted.
 */
const waited = async ({ t, p, seconds }: Wait, signal: AbortSignal, check: string) => {
  const texts: Partial<Record<WaitKey, string>> = t.goes_on ? t :
    { ...await (await fetch(new URL('captcha/texts?lang=' + t.lang, check), { credentials: 'omit', signal })).json(), ...t };
  const rules = new Intl.PluralRules(t.lang);
  const until = Date.now() + seconds * 1000 + Math.random() * 500;
  if (!seconds || !texts.goes_on) throw t; // nobody knows how long, or how to say it
  const say = () => {
    const left = Math.max(Math.ceil((until - Date.now()) / 1000), 0);
    const [unit, n] = left < 120 ? ['seconds', left] as const : ['minutes', Math.ceil(left / 60)] as const;
    const text = texts[`limited_wait_${unit}_${rules.select(n)}`] ?? texts[`limited_wait_${unit}_other`]!;
    return text.replace('{n}', String(n)) + ' ' + texts.goes_on;
  };
  const later = (target: EventTarget | null) => new Promise((go) => target ? target.addEventListener('visibilitychange', go, { once: true }) : setTimeout(go, 1000));
  let said: Text | HTMLElement = new Text(say());
  p.replaceChildren(said);
  while (Date.now() < until || document.hidden) {
    await later(Date.now() < until ? null : document);
    if (signal.aborted || said.parentNode !== p) throw t;
    if (said instanceof Text) {
      said = document.createElement('span');
      said.setAttribute('aria-live', 'off');
      p.replaceChildren(said);
    }
    said.textContent = say();
  }
  return '';
};

const toil: Toil = (url, task, progress, signal, part) => task && 'p' in task ? waited(task, signal, part!) : part ? checked(task, progress, signal, part) : new Promise((resolve, reject) => {
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
