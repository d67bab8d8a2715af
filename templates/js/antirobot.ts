// antirobot.js makes requests that just work behind an Antirobot gateway.
//
// It wraps fetch (and, if asked to, XMLHttpRequest). When the gateway answers with a challenge instead of the service,
// it asks the person once, however many requests and tabs wait, and then repeats what was stopped. The gateway
// never forwards a request that it challenges, so repeating a POST does nothing twice.
//
// Rules that the code keeps:
//  1. A challenge is recognized only by its response header. Bodies are read only after that.
//  2. URLs from a challenge are used only if they are on the origin of the request. A challenge never determines where the
//     script that does the work is loaded from.
//  3. Cancelling is a named error, never a reload. An aborted request no longer waits for the dialog.
//  4. A page shows one dialog at a time. Of several tabs, the one that the person is looking at shows it.

import { builtin } from './texts';
import { pressed } from './press';
import type { Task } from './toil';
import type { Toil } from './work';

/** The dialog's texts, by their keys in the gateway's catalogues. */
export type TextKey = 'challenge_heading' | 'reason_network' | 'reason_pace' | 'reason_message' | 'reason_load' | 'reason_service' | 'dialog_todo' | 'picture_alt' | 'audio_label' | 'new_picture' | 'answer_label' |
  'answer_hint' | 'continue' | 'cancel' | 'checking' | 'problem_failed' | 'problem_expired' | 'limited_text' | 'offline' |
  'why_heading' | 'why_text' | 'request_id' | 'test_notice' | 'work_offer' | 'work_running' | 'work_failed' |
  'press_todo' | 'press_button' | 'digits_instead';

/** What is told of a moving picture: fetched when there is one. */
export type MovingKey = 'moving_todo' | 'moving_label' | 'moving_hint';

/** What is told of a wait; where it is not built in, it is fetched when somebody has to wait. */
export type WaitKey = 'goes_on' | `limited_wait_${'seconds' | 'minutes'}_${'zero' | 'one' | 'two' | 'few' | 'many' | 'other'}`;

/** @internal */
export type Texts = Record<TextKey | 'lang' | 'dir', string> & Partial<Record<MovingKey | WaitKey, string>>;

/** The gateway's challenge. All URLs are absolute. */
export interface Challenge {
  key: string;
  image: string;
  audio: string;
  /** URL for the answer: POST key and rep. */
  check: string;
  /** The same challenge as a separate page, which leads back to the request's URL. */
  page: string;
  status: '' | 'failed' | 'expired';
  /** How many digits are asked for. */
  length: number;
  /** Seconds until the key expires. */
  expiresIn: number;
  requestId: string;
  /** Why somebody is asked. */
  reason: 'network' | 'pace' | 'message' | 'load' | 'service';
  /** Always false: the service has not seen the request. */
  forwarded: boolean;
  /** Every challenge of this site accepts the same answer. */
  test: boolean;
  /** The site lets the browser work instead of the person: session.work(). */
  work: boolean;
  /**
   * What is asked for, beside digits: silent, a check of the browser, or press, the same after somebody has pressed a button:
   * session.check(); dynamic: directions of a moving picture, session.follow().
   */
  step: 'silent' | 'press' | 'dynamic' | '';
  /** With the step dynamic: the moving picture, and a sound that says the digits of a keypad for its directions. */
  moving?: { image: string; audio: string };
  /** @internal The key of what is asked for, and what session.check() does. */
  ask?: { key: string; work: Task; part: string };
}

/** The result of an answer; next: another moving picture follows; new: another picture; stopped: the work was stopped; unable: the browser can't work here; over: somebody else answered first, or nobody waits any more. */
export type Outcome = 'passed' | 'wrong' | 'expired' | 'limited' | 'offline' | 'next' | 'new' | 'stopped' | 'unable' | 'over';

/** A challenge in progress, for custom interfaces. */
export interface Session {
  /** The current challenge; a wrong answer brings another. */
  readonly challenge: Challenge;
  /** Aborted when it is over: passed (here or in another tab), cancelled, or nobody waits any more. */
  readonly signal: AbortSignal;
  /** With the outcome limited: seconds until another try makes sense; 0: unknown. */
  readonly retryAfter: number;
  answer(digits: string): Promise<Outcome>;
  /** Lets the browser work instead, if challenge.work says so. progress gets the share done so far, up to 1. */
  work(progress?: (share: number) => void, signal?: AbortSignal): Promise<Outcome>;
  /** Lets the browser be checked, if challenge.step says so; how: how a button was pressed, as evidence. */
  check(how?: string): Promise<Outcome>;
  /** Answers a moving picture, if challenge.step is dynamic: arrows, or the digits of a keypad. */
  follow(directions: string): Promise<Outcome>;
  /** Another picture; nothing is lost. */
  renew(): Promise<Outcome>;
  /** @internal The outcome of the silent check before anybody is asked. */
  readonly checked?: Outcome;
  /** @internal Counts the wait down in p, and resolves when it is over. */
  wait(t: Texts, p: HTMLElement): Promise<unknown>;
  cancel(): void;
}

export type UI = 'dialog' | 'redirect' | 'none' | Element | ((session: Session) => void);
export type Replay = 'auto' | 'safe' | 'never' | ((request: { method: string; url: string }, challenge: Challenge) => boolean | Promise<boolean>);
export type Matcher = string | RegExp | ((url: URL) => boolean);

export interface Options {
  /** Origins whose challenges are answered; the page's own is always one. */
  origins?: string[];
  /** Requests to leave alone: path prefixes, patterns over the whole URL, or functions. */
  exclude?: Matcher[];
  /** Default: dialog. */
  ui?: UI;
  /** What may be repeated after the answer. auto: everything; safe: GET, HEAD and OPTIONS. */
  replay?: Replay;
  /** Bodies larger than this many bytes are not kept for a repeat. Default: 1 MiB. */
  maxBody?: number;
  /** How often one request may be challenged again after a right answer. Default: 2. */
  rounds?: number;
  /** Language of the dialog. Default: the page's, otherwise the browser's. */
  lang?: string;
  /** Default: auto. */
  theme?: 'auto' | 'light' | 'dark';
  /** Nonce for the dialog's style under a content security policy, in browsers without constructed style sheets. */
  nonce?: string;
  /** Custom texts that replace the dialog's. */
  text?: Partial<Record<TextKey | MovingKey | WaitKey, string>>;
  /** URL of work.js, for work instead of the puzzle. Default: the gateway's own if it is on the page's origin. */
  work?: string;
  /** Credentials mode of wrapped requests that specify none. */
  credentials?: RequestCredentials;
}

export interface EventMap {
  /** The person is about to be asked. preventDefault() takes over: use the session. */
  challenge: Session;
  shown: Session;
  answer: { session: Session; outcome: Outcome };
  wrong: Session;
  passed: { origin: string };
  replayed: { url: string; method: string };
  cancelled: AntirobotCancelled;
  blocked: AntirobotBlocked;
  error: unknown;
}

export type State = 'idle' | 'waiting' | 'asking';

export interface Antirobot {
  fetch: typeof fetch;
  isChallenge(response: Response): boolean;
  /** The challenge in a response, or null. The response stays readable. */
  read(response: Response): Promise<Challenge | null>;
  /** Asks the person; resolves when there is a pass. */
  solve(challenge: Challenge, signal?: AbortSignal | null): Promise<void>;
  /**
   * Resolves when the URL (also of a WebSocket) may be opened by what can't be asked itself: a WebSocket, an EventSource. It requests the
   * URL, reads no more than the head of its answer, and rejects as fetch does.
   */
  ready(url: string | URL): Promise<void>;
  /** Patches the globals; the returned function undoes it. */
  install(what?: { fetch?: boolean; xhr?: boolean }): () => void;
  on<K extends keyof EventMap>(type: K, listener: (event: CustomEvent<EventMap[K]>) => void): () => void;
  /** idle; waiting: requests wait, the dialog is in another tab; asking. */
  readonly state: State;
}

/** The person closed the dialog, or there is no interface that could ask. */
export class AntirobotCancelled extends Error {
  override readonly name = 'AntirobotCancelled';
  /** As axios says it of what was aborted, and does not repeat. */
  readonly code = 'ECONNABORTED';
  constructor(readonly challenge: Challenge) {
    super('not answered');
  }
}

/** The gateway refuses the client; or, with reason rounds, asks again although the answer was right, most likely because its cookie is not kept. */
export class AntirobotBlocked extends Error {
  override readonly name = 'AntirobotBlocked';
  constructor(readonly reason: 'blocked' | 'rounds', readonly requestId: string, readonly response?: Response) {
    super(reason === 'blocked' ? 'request refused' : 'asked again: no cookie?');
  }
}

/** There is a pass, but the request could not be repeated: send it again. */
export class AntirobotNotReplayable extends Error {
  override readonly name = 'AntirobotNotReplayable';
  constructor(readonly why: 'body' | 'replay', readonly challenge: Challenge) {
    super('passed, not repeated');
  }
}

// As they were when this script ran: what others put around them later is theirs.
const plain = globalThis.fetch?.bind(globalThis);
const PlainXHR = globalThis.XMLHttpRequest;

const HEADER = 'X-Antirobot-Verdict';
const now = () => performance.now();
const nothing = () => {};

// Passes that were earned, by gateway: what was sent before is repeated without asking. Shared by all instances.
const passes = new Map<string, number>();
const tabID = Math.random();
const news = new EventTarget();
let channel: BroadcastChannel | undefined; // made with the first instance: to import this file does nothing
const heard = (type: string, origin: string) => {
  if (type === 'passed') passes.set(origin, now());
  news.dispatchEvent(new CustomEvent(type, { detail: origin }));
};
const listen = () => {
  if (channel || typeof BroadcastChannel !== 'function') return;
  channel = new BroadcastChannel('antirobot');
  channel.onmessage = ({ data }) => { if (data?.tab !== tabID) heard(String(data?.type), String(data?.origin)); };
};
const tell = (type: string, origin: string) => channel?.postMessage({ type, origin, tab: tabID });

/** Resolves at the first of these events; all listeners are gone then. */
const first = (signal: AbortSignal, ...sources: [EventTarget, string, ((e: Event) => boolean)?][]) => new Promise<void>((resolve) => {
  const over = new AbortController();
  const done = () => { over.abort(); resolve(); };
  if (signal.aborted) return done();
  for (const [target, type, fits] of [...sources, [signal, 'abort'] as [EventTarget, string]]) {
    target.addEventListener(type, (e) => { if (!fits || fits(e)) done(); }, { signal: over.signal });
  }
});

const el = <K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Record<string, string> = {}, ...inside: (Node | string)[]) => {
  const e = document.createElement(tag);
  for (const name in attributes) e.setAttribute(name, attributes[name]!);
  e.append(...inside);
  return e;
};

const button = (look: string, text: string) => el('button', { type: 'button', class: look }, text);

/** Texts of a language: built in, if they are enough, or of the gateway's catalogue. */
const textsOf = async (lang: string, { check, moving }: Challenge): Promise<Texts> => {
  if (/^en\b/i.test(lang) && !moving) return builtin;
  try {
    const r = await plain(new URL('captcha/texts?lang=' + encodeURIComponent(lang), check), { signal: AbortSignal.timeout?.(3000), credentials: 'omit' });
    if (r.ok) return { ...builtin, ...await r.json() };
  } catch { /* English is better than nothing */ }
  return builtin;
};

// --b background, --c of buttons, --i ink, --s soft ink, --l lines, --a accent, --o on it, --e errors, --p paper
const CSS = `:host{all:initial}*{box-sizing:border-box}
.r{--b:#fff;--c:#f3f4f6;--i:#1b1f24;--s:#4b5563;--l:#7b8494;--a:#1a56b0;--o:#fff;--e:#a8201a;--p:#fff;color-scheme:light;font:100%/1.5 system-ui,sans-serif;color:var(--i);background:var(--b);overflow-wrap:anywhere}
dialog{width:27rem;max-width:calc(100vw - 1rem);max-height:calc(100dvh - 1rem);padding:1.25rem;border:1px solid var(--l);border-radius:.75rem;overflow:auto}
dialog::backdrop{background:rgb(0 0 0/.55)}
h2{font-size:1.375rem;line-height:1.3;margin:0 0 .5rem}p{margin:0 0 .75rem}
.q{color:var(--s)}.p{background:var(--p);border:1px solid var(--l);border-radius:.5rem;padding:.25rem;margin:0 0 .75rem}
img{display:block;width:100%;max-width:300px;height:auto;min-height:4rem;margin:auto;color:#1b1f24}
audio{display:block;width:100%;min-height:2.5rem}
label,.e{display:block;font-weight:600;margin-top:.5rem}
.e{color:var(--e)}p:empty{margin:0}
input{display:block;width:100%;padding:.6rem .75rem;font:inherit;font-size:1.375rem;letter-spacing:.12em;color:inherit;background:var(--b);border:1px solid var(--l);border-radius:.5rem}
input[aria-invalid=true]{border:2px solid var(--e)}
button{font:inherit;min-height:2.75rem;padding:.5rem 1rem;border:1px solid var(--l);border-radius:.5rem;color:inherit;background:var(--c);cursor:pointer}
.g{font-weight:600;color:var(--o);background:var(--a);border-color:transparent;flex:1}
.l{min-height:2rem;padding:.15rem 0;border:0;background:none;color:var(--a);text-decoration:underline;text-align:start}
.m{image-rendering:pixelated;aspect-ratio:1}
.b{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:.9rem}.b[hidden]{display:none}
:focus-visible{outline:3px solid var(--a);outline-offset:2px}
details{margin-top:1rem}summary{cursor:pointer;min-height:1.75rem;color:var(--a)}
.d{--b:#1d2126;--c:#2b3037;--i:#eceff3;--s:#b4bcc8;--l:#7d8796;--a:#8ab6f9;--o:#0b1a2e;--e:#ffb3ac;--p:#c3c9d1;color-scheme:dark}
@media (max-height:30rem){dialog{padding:.5rem}p{font-size:.875rem}p,.p,h2{margin:0}img{max-width:15rem}input{clear:both;scroll-margin:14rem 0 4rem}.p:has(.m){float:inline-start}.m{width:8rem}}
@media (forced-colors:active){.g,.p{border-color:CanvasText}}`;

/** The form with the puzzle. It lives in a shadow tree, so that no style of the page reaches it, or the other way round. */
class Puzzle {
  readonly host = el('antirobot-captcha' as 'div');
  readonly #session: Session;
  readonly #t: Texts;
  readonly root = this.host.attachShadow({ mode: 'open' });
  readonly box: HTMLElement;
  readonly #image: HTMLImageElement;
  readonly #audio: HTMLAudioElement;
  readonly #error: HTMLElement;
  readonly #status: HTMLElement;
  readonly #field: HTMLInputElement;
  readonly #id: HTMLElement;
  #press?: HTMLElement; // the button, while nothing else is asked for
  #moves = false; // the picture moves, and directions are asked for
  readonly #mode: (moves?: unknown) => void;
  #busy = false;

  constructor(session: Session, t: Texts, lang: string, modal: boolean, o: Options) {
    this.#session = session;
    this.#t = t;
    this.#style(o.nonce);
    const dark = o.theme === 'dark' || o.theme !== 'light' && matchMedia('(prefers-color-scheme:dark)').matches;
    this.#image = el('img', { alt: t.picture_alt, width: '240', height: '80' });
    this.#audio = el('audio', { controls: '', preload: 'none', 'aria-label': t.audio_label });
    this.#error = el('p', { class: 'e', id: 'e', role: 'alert' });
    this.#status = el('p', { class: 'q', role: 'status' });
    this.#id = el('code', { dir: 'ltr' });
    this.#field = el('input', {
      id: 'f', type: 'text', dir: 'ltr', inputmode: 'numeric', pattern: '[0-9]*', autocomplete: 'off',
      enterkeyhint: 'go', 'aria-describedby': 'e n',
    });
    const other = button('l', t.new_picture);
    const cancel = button('', t.cancel);
    const work = button('l', t.work_offer);
    let run: AbortController | null = null;
    const why = t[`reason_${session.challenge.reason}`] ?? t.reason_network;
    const reason = el('p', { id: 'd', class: 'q' });
    const press = button('g', t.press_button);
    const instead = button('', t.digits_instead);
    const label = el('label', { for: 'f' });
    const hint = el('p', { id: 'n', class: 'q' });
    const still = button('l', t.digits_instead);
    const arrows = el('div', { class: 'b' }, ...[...'←↑→↓'].map((a) => {
      const b = button('', a);
      b.onclick = () => { this.#field.value += a; };
      return b;
    }));
    this.#field.onkeydown = (e) => {
      const a = this.#moves && '←↑→↓'[e.keyCode - 37]; // the four arrow keys
      if (a) { e.preventDefault(); this.#field.value += a; }
    };
    this.#mode = (moves) => {
      this.#moves = !!moves;
      still.hidden = arrows.hidden = !moves;
      this.#image.className = moves ? 'm' : '';
      [label.textContent, hint.textContent, reason.textContent] = moves ? [t.moving_label!, t.moving_hint!, why + ' ' + t.moving_todo] : [t.answer_label, t.answer_hint, why + ' ' + t.dialog_todo];
      this.#draw();
    };
    const shown = el('div', { class: 'p' }, this.#image);
    const digits = () => {
      this.#press = undefined;
      top.hidden = !(rest.hidden = false);
      shown.after(this.#error, this.#status);
      this.#say('', false); // whatever waits stops
      this.#mode();
      this.focus();
    };
    still.onclick = digits;
    const close = button('', t.cancel);
    const top = el('div', { class: 'b' }, press, instead, ...modal ? [close] : []);
    const rest = el('div', {},
      shown, this.#error, this.#status,
      label, hint, arrows, this.#field,
      el('div', { class: 'b' }, el('button', { class: 'g' }, t.continue), ...modal ? [cancel] : []),
      el('div', { class: 'b' }, other, ...session.challenge.work ? [work] : [], still), this.#audio);
    const form = el('form', { novalidate: '' },
      el('h2', { id: 'h' }, t.challenge_heading), reason,
      ...session.challenge.test ? [el('p', {}, el('strong', {}, t.test_notice))] : [],
      top, rest,
      el('details', {}, el('summary', {}, t.why_heading), el('p', {}, t.why_text), el('p', { class: 'q' }, t.request_id, ': ', this.#id)));
    this.box = el(modal ? 'dialog' : 'section', {
      class: dark ? 'r d' : 'r', lang, dir: t.dir, 'aria-labelledby': 'h', ...modal ? { 'aria-describedby': 'd' } : {},
    }, form);
    this.root.append(this.box);
    form.onsubmit = (e) => { e.preventDefault(); run?.abort(); this.#send(session[this.#moves ? 'follow' : 'answer'].bind(session, this.#field.value)); };
    work.onclick = async () => {
      if (run) return run.abort();
      run = new AbortController();
      work.textContent = t.cancel;
      cancel.hidden = true; // only one button of that name: it stops the work, and Escape closes the dialog
      this.#say('', false);
      this.#status.textContent = t.work_running;
      const outcome = await session.work((share) => { if (share * 4 % 1 === 0) this.#status.textContent = `${t.work_running} ${share * 100} %`; }, run.signal);
      run = null;
      work.textContent = t.work_offer;
      cancel.hidden = false;
      if (!this.#busy) this.#told(outcome, () => work.click());
    };
    other.onclick = () => this.#send(() => session.renew());
    cancel.onclick = close.onclick = () => session.cancel();
    this.box.addEventListener('cancel', (e) => { e.preventDefault(); session.cancel(); });
    // Key events stay here: the page's shortcuts do not see what is typed.
    for (const type of ['keydown', 'keypress', 'keyup']) this.host.addEventListener(type, (e) => e.stopPropagation());
    this.#image.onerror = () => { this.#say(t.offline, false); };
    addEventListener('online', () => {
      if (this.#image.naturalWidth) return;
      this.#say('', false);
      this.#draw();
    }, { signal: session.signal });
    const waits = session.checked === 'limited';
    if (session.challenge.step !== 'press' && !waits) {
      top.hidden = true;
      this.#mode(session.challenge.moving);
      return;
    }
    rest.hidden = true;
    top.after(this.#error, this.#status);
    this.#press = waits ? instead : press;
    instead.onclick = digits;
    // Who has to wait is told, and checked again then; whatever else goes wrong leads to the digits.
    const told = (outcome: Outcome, how?: string) => {
      if (outcome === 'limited') this.#told(outcome, () => check(how));
      else if (/^[^po]/.test(outcome)) digits();
    };
    const check = async (how?: string) => told(await session.check(how), how);
    pressed(press, check);
    reason.textContent = waits ? why : why + ' ' + t.press_todo;
    press.hidden = waits;
    if (waits) told('limited');
  }

  #style(nonce?: string) {
    try {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(CSS);
      this.root.adoptedStyleSheets = [sheet];
    } catch { // no constructed style sheets
      this.root.append(el('style', nonce ? { nonce } : {}, CSS));
    }
  }

  focus() { (this.#press ?? this.#field).focus(); }

  #draw() {
    const c = this.#session.challenge;
    const m = this.#moves && c.moving || c;
    this.#image.src = m.image;
    this.#audio.src = m.audio + '&lang=' + encodeURIComponent(this.box.lang);
    this.#id.textContent = c.requestId;
  }

  #say(error: string, invalid: boolean) {
    this.#status.textContent = '';
    this.#error.textContent = error;
    this.#field.setAttribute('aria-invalid', `${invalid}`);
  }

  async #send(what: () => Promise<Outcome>) {
    if (this.#busy) return;
    this.#busy = true;
    this.#say('', false);
    this.#status.textContent = this.#t.checking;
    const outcome = await what();
    this.#busy = false;
    if (this.#told(outcome, () => this.#send(what))) this.focus();
  }

  /** Says how it went. Who has to wait need not press again: what they did is done again then. */
  #told(outcome: Outcome, again: () => void) {
    const t = this.#t;
    if (outcome === 'passed' || outcome === 'over') return false;
    if (/^[wen]/.test(outcome)) { // wrong, expired, next, new: there is another picture
      this.#field.value = '';
      this.#mode(this.#moves && this.#session.challenge.moving);
    }
    const problems: Partial<Record<Outcome, string>> = { expired: t.problem_expired, limited: t.limited_text, offline: t.offline, unable: t.work_failed, wrong: t.problem_failed };
    this.#say(problems[outcome] ?? '', outcome === 'wrong');
    if (outcome === 'limited') this.#session.wait(t, this.#status).then(again, nothing);
    return true;
  }
}

type Sending = { method: string; url: string; send: () => Promise<Response>; signal: AbortSignal | null; drop: () => void; repeatable: unknown };

export function createAntirobot(options: Options = {}): Antirobot {
  listen();
  const o = { ui: 'dialog' as UI, replay: 'auto' as Replay, maxBody: 1 << 20, rounds: 2, ...options };
  const origins = new Set([location.origin, ...(o.origins ?? []).map((x) => new URL(x).origin)]);
  const events = new EventTarget();
  const emit = <K extends keyof EventMap>(type: K, detail: EventMap[K]) =>
    events.dispatchEvent(new CustomEvent(type, { detail, cancelable: true }));
  const jobs = new Map<string, Job>();
  const cancels = new Map<string, number>(); // what was sent before shares the fate of what was cancelled
  let asking: Job | null = null;
  let queue: Promise<unknown> = Promise.resolve();

  const covers = (u: URL) => origins.has(u.origin) && !/\/(x?checkcaptcha|showcaptcha|captcha\/[^/]*)$/.test(u.pathname) &&
    !o.exclude?.some((m) => typeof m === 'string' ? u.pathname.startsWith(m) : m instanceof RegExp ? u.href.search(m) >= 0 : m(u));

  /** Makes a challenge from the gateway's answer; null if it is none. */
  const parse = (body: any, from: string): Challenge | null => {
    const c = body?.captcha;
    if (body?.type !== 'captcha' || !c?.key) return null;
    const at = (x: unknown) => {
      const u = new URL(String(x), from);
      if (u.origin !== new URL(from).origin) throw new TypeError('challenge leads to ' + u.origin);
      return u.href;
    };
    return {
      key: String(c.key), image: at(c['img-url']), audio: at(c['audio-url']), check: at(c['check-url']), page: at(c['captcha-page']),
      status: c.status, length: c.length, reason: body.reason, expiresIn: c['expires-in'], requestId: String(body['request-id'] ?? ''),
      forwarded: body.forwarded !== false, test: !!body.test,
      work: !!(c['work-url'] && worker(c['check-url'])),
      ...c.ask?.work && worker(c['check-url']) ? { step: c.ask.step, ask: { ...c.ask, part: at(c.ask['part-url']) } } :
        c.ask?.['img-url'] ? { step: c.ask.step, ask: c.ask, moving: { image: at(c.ask['img-url']), audio: at(c.ask['audio-url']) } } : { step: '' },
    };
  };

  /** The URL of a gateway's work.js; undefined if unknown. */
  const worker = (check: string) => {
    const u = new URL('captcha/work.js', check);
    return o.work ?? (u.origin === location.origin ? u.href : undefined);
  };

  /** Does work, or waits, with the gateway's work.js, which is loaded for it. */
  const toil: Toil = async (check, ...rest) => {
    const url = worker(check)!;
    await import(url);
    return (globalThis as unknown as { antirobotWork: Toil }).antirobotWork(url, ...rest);
  };

  /** Asks the gateway itself: an answer, or with new=1 another picture. */
  const ask = async (check: string, fields: Record<string, string>, signal?: AbortSignal) => {
    const r = await plain(check, {
      method: 'POST', body: new URLSearchParams({ format: 'json', ...fields }), signal, cache: 'no-store', redirect: 'error',
      headers: { Accept: 'application/json' }, credentials: new URL(check).origin === location.origin ? 'same-origin' : 'include',
    });
    return { body: await r.json().catch(nothing), status: r.status };
  };

  const isChallenge = (r: Response) => r.headers.get(HEADER) === 'captcha';

  const read = async (r: Response): Promise<Challenge | null> => {
    if (!isChallenge(r)) return null;
    const text = await r.clone().text();
    try {
      return parse(JSON.parse(text), r.url);
    } catch (e) {
      if (e instanceof TypeError) throw e;
      return page(text, r.url);
    }
  };

  /** Where browsers do not say what a request is for, the gateway answers with its page: its form leads to the JSON. */
  const page = async (html: string, url: string) => {
    const check = new URL(/<form[^>]*\saction="([^"]*\/checkcaptcha)"/.exec(html)?.[1] ?? '/checkcaptcha', url);
    return origins.has(check.origin) ? parse((await ask(check.href, { new: '1' })).body, url) : null;
  };

  /** The question that any number of requests wait for. */
  class Job implements Session {
    readonly #over = new AbortController();
    readonly signal = this.#over.signal;
    readonly origin: string;
    readonly done: Promise<void>;
    retryAfter = 0;
    checked?: Outcome;
    #waiting = 0;
    #settle!: (error?: unknown) => void;

    constructor(public challenge: Challenge) {
      this.origin = new URL(challenge.check).origin;
      this.done = new Promise<void>((resolve, reject) => {
        this.#settle = (error) => {
          if (this.signal.aborted) return;
          this.#over.abort();
          jobs.delete(this.origin);
          error === undefined ? resolve() : reject(error);
        };
      });
      this.done.catch(nothing);
      first(this.signal, [news, 'passed', (e) => (e as CustomEvent).detail === this.origin]).then(() => this.#settle());
      queue = queue.then(() => this.#run()).catch((e) => { emit('error', e); this.#settle(e); });
    }

    /** Waits with the others until it is over or signal aborts; the last one to leave closes the question. */
    async join(signal?: AbortSignal | null) {
      this.#waiting++;
      try {
        await (signal ? Promise.race([this.done, first(this.signal, [signal, 'abort'])]) : this.done);
        signal?.throwIfAborted();
      } finally {
        if (!--this.#waiting) this.#settle(new AntirobotCancelled(this.challenge));
      }
      await this.done;
    }

    async #run() {
      if (!this.signal.aborted && this.challenge.step === 'silent') this.checked = await this.check();
      if (this.signal.aborted || !emit('challenge', this)) return this.#ended();
      const ui = o.ui;
      if (ui === 'none') return this.cancel();
      if (ui === 'redirect') {
        // The page to return to is this one, not the URL that the script requested.
        const { body } = await ask(this.challenge.check, { new: '1', retpath: location.href }, this.signal);
        emit('shown', this);
        location.assign(parse(body, this.challenge.check)?.page ?? this.challenge.page);
        return this.#ended();
      }
      asking = this;
      try {
        if (typeof ui === 'function') {
          emit('shown', this);
          ui(this);
          await this.#ended();
        } else await this.#show(ui);
      } finally {
        asking = null;
      }
    }

    #ended() { return first(this.signal); }

    async #show(ui: Element | 'dialog') {
      const c = this.challenge;
      const wanted = o.lang || document.documentElement.lang || navigator.language || 'en';
      const t = await textsOf(wanted, c);
      const puzzle = new Puzzle(this, { ...t, ...o.text }, t.lang, ui === 'dialog', o);
      if (ui !== 'dialog') {
        ui.append(puzzle.host);
        emit('shown', this);
        puzzle.focus();
        await this.#ended();
        return puzzle.host.remove();
      }
      const dialog = puzzle.box as HTMLDialogElement;
      const looked = () => !document.hidden;
      for (let again = false; !this.signal.aborted; again = true) {
        // Once another tab has the dialog, it returns here when the person does.
        if (again || document.hidden) {
          asking = null;
          await first(this.signal, [document, 'visibilitychange', looked], [window, 'focus', looked]);
          if (this.signal.aborted) break;
          asking = this;
        }
        (document.body ?? document.documentElement).append(puzzle.host);
        dialog.showModal();
        puzzle.focus();
        tell('showing', this.origin);
        emit('shown', this);
        await first(this.signal, [news, 'showing']);
        dialog.close(); // returns the focus
        puzzle.host.remove();
      }
    }

    answer(digits: string) { return this.#typed(digits, this.challenge); }
    follow(directions: string) { return this.#typed(directions, { ...this.challenge.ask!, ...this.challenge.moving! }); }
    /** Sends what was typed, signed with the browser's key if it has one. */
    async #typed(rep: string, { key, audio }: { key: string; audio: string }) {
      return this.#post({ key, rep: rep && rep + await toil(this.challenge.check, null, nothing, this.signal, audio).catch(() => '') });
    }
    async work(progress: (share: number) => void = nothing, signal?: AbortSignal): Promise<Outcome> {
      const { check } = this.challenge;
      const over = new AbortController();
      first(this.signal, ...signal ? [[signal, 'abort'] as [EventTarget, string]] : []).then(() => over.abort());
      let why: Outcome = 'offline';
      try {
        const { body, status } = await ask(check, { new: '1', kind: 'work' }, over.signal);
        const c = body.captcha;
        this.retryAfter = body['retry-after'] ?? 0;
        why = status === 429 ? 'limited' : 'unable';
        return await this.#post({ key: c.key, rep: await toil(check, c.work, progress, over.signal) });
      } catch {
        return this.signal.aborted ? 'over' : over.signal.aborted ? 'stopped' : why;
      }
    }
    async check(how = ''): Promise<Outcome> {
      const { ask, check } = this.challenge;
      try {
        return await this.#post({ key: ask!.key, rep: await toil(check, ask!.work, nothing, this.signal, ask!.part) + how }, true);
      } catch {
        return this.signal.aborted ? 'over' : 'unable';
      }
    }
    renew() { return this.#post({ new: '1' }); }
    wait(t: Texts, p: HTMLElement) { return toil(this.challenge.check, { t, p, seconds: this.retryAfter }, nothing, this.signal, this.challenge.check); }
    cancel() {
      cancels.set(this.origin, now());
      this.#settle(new AntirobotCancelled(this.challenge));
    }

    async #post(fields: Record<string, string>, quiet?: boolean): Promise<Outcome> {
      const outcome = await this.#posted(fields);
      if (!quiet && fields.rep != null) emit('answer', { session: this, outcome });
      if (!quiet && outcome === 'wrong') emit('wrong', this);
      if (outcome === 'passed') {
        heard('passed', this.origin);
        tell('passed', this.origin);
        emit('passed', { origin: this.origin });
        this.#settle();
      }
      return outcome;
    }

    async #posted(fields: Record<string, string>): Promise<Outcome> {
      try {
        const { body, status } = await ask(this.challenge.check, { key: this.challenge.key, ...fields }, this.signal);
        this.retryAfter = body?.['retry-after'] ?? 0;
        if (body?.captcha?.status === 'success') return 'passed';
        if (body?.type === 'blocked') {
          const e = new AntirobotBlocked('blocked', String(body['request-id'] ?? ''));
          emit('blocked', e);
          this.#settle(e);
          return 'over';
        }
        const next = parse(body, this.challenge.check);
        if (!next) return status === 429 ? 'limited' : 'offline';
        this.challenge = next;
        return next.status === 'expired' ? 'expired' : !fields.rep ? 'new' : next.status ? 'wrong' : 'next';
      } catch {
        return this.signal.aborted ? 'over' : 'offline';
      }
    }
  }

  const solve = async (c: Challenge, signal?: AbortSignal | null) => {
    signal?.throwIfAborted();
    const origin = new URL(c.check).origin;
    let job = jobs.get(origin);
    if (!job) jobs.set(origin, job = new Job(c));
    try {
      await job.join(signal);
    } catch (e) {
      if (e instanceof AntirobotCancelled) emit('cancelled', e);
      throw e;
    }
  };

  const refuse = <K extends 'blocked' | 'cancelled'>(type: K, e: EventMap[K]) => {
    emit(type, e);
    throw e;
  };

  const mayRepeat = async (r: { method: string; url: string }, c: Challenge) => {
    const replay = o.replay;
    if (typeof replay === 'function') return replay(r, c);
    return replay === 'auto' ? !c.forwarded : replay === 'safe' && /^(GET|HEAD|OPTIONS)$/.test(r.method);
  };

  /** Settles a challenge: true if the request must be sent again, false if c was none. */
  const handle = async (r: { method: string; url: string }, c: Challenge, sent: number, round: number, signal: AbortSignal | null, repeatable: unknown) => {
    const origin = new URL(c.check).origin;
    if (!(sent < (passes.get(origin) ?? -1))) {
      if (sent < (cancels.get(origin) ?? -1)) {
        refuse('cancelled', new AntirobotCancelled(c));
      }
      if (round > o.rounds) {
        refuse('blocked', new AntirobotBlocked('rounds', c.requestId));
      }
      await solve(c, signal);
    }
    if (!await repeatable) throw new AntirobotNotReplayable('body', c);
    if (!await mayRepeat(r, c)) throw new AntirobotNotReplayable('replay', c);
  };

  /** What is needed to send a request more than once. Bodies that can only be read once are kept up to maxBody. */
  const keep = (input: RequestInfo | URL, init: RequestInit | undefined, url: string): Sending => {
    const request = input instanceof Request ? input : null;
    const options: RequestInit = { ...init };
    if (o.credentials && !request && !options.credentials) options.credentials = o.credentials;
    const body = options.body;
    let repeatable = true;
    if (body != null) {
      const kept = frozen(body, o.maxBody);
      if (kept === undefined) repeatable = false;
      else options.body = kept;
    } else if (request?.body) {
      const memory = collect(request.clone(), o.maxBody);
      const { headers, mode, cache, redirect, referrer, referrerPolicy, integrity, credentials, signal, method } = request;
      let sent = false;
      return {
        method, url, signal: options.signal ?? signal, drop: memory.drop, repeatable: memory.whole,
        send: () => {
          if (!sent) {
            sent = true;
            return plain(request, options);
          }
          return plain(url, {
            method, headers, mode, cache, redirect, referrer, referrerPolicy, integrity, credentials, signal, ...options,
            body: new Blob(memory.parts as BlobPart[]),
          });
        },
      };
    }
    return {
      method: (options.method ?? request?.method ?? 'GET').toUpperCase(), url, signal: options.signal ?? request?.signal ?? null,
      drop: nothing, repeatable, send: () => plain(input, options),
    };
  };

  const guarded = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : input, document.baseURI);
    if (!covers(url)) return plain(input, init);
    const r = keep(input, init, url.href);
    try {
      for (let round = 0; ; round++) {
        const sent = now();
        const res = await r.send();
        const verdict = res.headers.get(HEADER);
        if (verdict === 'blocked') {
          refuse('blocked', new AntirobotBlocked('blocked', res.headers.get('X-Request-Id') ?? '', res));
        }
        const c = verdict === 'captcha' ? await read(res) : null;
        if (!c) {
          if (round) emit('replayed', { url: r.url, method: r.method });
          return res;
        }
        await handle(r, c, sent, round, r.signal, r.repeatable);
      }
    } finally {
      r.drop();
    }
  };

  /** A class that withholds what a listener would see of a challenge, until the repeat or a refusal. */
  const guardXHR = () => class extends PlainXHR {
    #a: [string, string | URL, boolean, string?, string?] | null = null;
    #headers: [string, string][] = [];
    #kept: any;
    #held = false; // listeners hear nothing
    #failed = false;
    #repeating = false;
    #round = 0;
    #sent = 0;
    #give: AbortController | null = null;

    constructor() {
      super();
      for (const name in this) { // onload, onerror, …
        if (/^on/.test(name)) this.addEventListener(name.slice(2), (e) => this.#hear(e)); // the first listener of all
      }
    }

    #hear(e: Event) {
      if (!this.#a || !e.isTrusted) return;
      if (this.#repeating) { // listeners saw these events at the first attempt
        if (super.readyState < 2 && (e.type === 'loadstart' || e.type === 'readystatechange')) return e.stopImmediatePropagation();
        if (super.readyState >= 2 || e.type === 'error') this.#held = this.#repeating = false;
      }
      if (!this.#held && super.readyState >= 2 && this.getResponseHeader(HEADER) === 'captcha') this.#held = true;
      if (!this.#held) return;
      e.stopImmediatePropagation();
      if (e.type === 'loadend') this.#settle();
    }

    async #settle() {
      this.#give = new AbortController();
      try {
        const c = await this.#challenge();
        if (!c) return this.#release('load');
        await handle({ method: this.#a![0], url: this.responseURL }, c, this.#sent, this.#round++, this.#give.signal, this.#kept !== undefined);
        this.#repeating = true;
        super.open(...this.#a!);
        for (const [name, value] of this.#headers) super.setRequestHeader(name, value);
        this.#sent = now();
        super.send(this.#kept);
        emit('replayed', { url: String(this.#a![1]), method: this.#a![0] });
      } catch (e) {
        if (!this.#give.signal.aborted) this.#end(e instanceof AntirobotCancelled ? 'abort' : 'error'); // libraries repeat what fails, not what was aborted
      }
    }

    /** Ends it without an answer. */
    #end(type: string) {
      super.abort();
      this.#failed = true;
      this.#release(type);
    }

    /** Tells the listeners the result. */
    #release(type: string) {
      this.#held = false;
      for (const t of ['readystatechange', type, 'loadend']) this.dispatchEvent(new ProgressEvent(t));
    }

    async #challenge() {
      let v = this.response;
      if (v instanceof Blob || v instanceof ArrayBuffer) v = await new Response(v).text();
      if (v === null || v instanceof Document) return page('', this.responseURL);
      if (typeof v === 'string') {
        try { v = JSON.parse(v); } catch { return page(v, this.responseURL); }
      }
      return parse(v, this.responseURL);
    }

    override get readyState() { return this.#failed ? 4 : this.#held || this.#repeating ? 1 : super.readyState; }

    override open(method: string, url: string | URL, async = true, user?: string, password?: string) {
      const u = new URL(url, document.baseURI);
      this.#give?.abort();
      this.#a = async && covers(u) ? [method.toUpperCase(), url, true, user, password] : null;
      this.#headers = [];
      this.#held = this.#failed = this.#repeating = false;
      this.#round = 0;
      super.open(method, url, async, user, password);
      if (this.#a && o.credentials === 'include') this.withCredentials = true;
    }

    override setRequestHeader(name: string, value: string) {
      super.setRequestHeader(name, value);
      this.#headers.push([name, value]);
    }

    override send(body?: any) {
      if (this.#a) {
        this.#kept = body instanceof Document ? undefined : body == null ? null : frozen(body, o.maxBody);
        this.#sent = now();
      }
      super.send(this.#kept ?? body);
    }

    override abort() {
      if (!this.#held) return super.abort();
      this.#give?.abort();
      this.#repeating = false;
      this.#a = null;
      this.#end('abort');
      this.#failed = false;
    }
  };

  return {
    fetch: guarded,
    isChallenge,
    read,
    solve,
    async ready(url) {
      await (await guarded(String(url).replace(/^ws(?=s?:)/, 'http'))).body?.cancel();
    },
    install({ fetch = true, xhr = false } = {}) {
      const g = globalThis;
      const was = { fetch: g.fetch, xhr: g.XMLHttpRequest };
      const Guarded = xhr ? guardXHR() : null;
      if (fetch) g.fetch = guarded;
      if (Guarded) g.XMLHttpRequest = Guarded;
      return () => {
        if (g.fetch === guarded) g.fetch = was.fetch;
        if (Guarded && g.XMLHttpRequest === Guarded) g.XMLHttpRequest = was.xhr;
      };
    },
    on(type, listener) {
      events.addEventListener(type, listener as EventListener);
      return () => events.removeEventListener(type, listener as EventListener);
    },
    get state() { return asking ? 'asking' : jobs.size ? 'waiting' : 'idle'; },
  };
}

/** A body as it is now, fit to be sent more than once; undefined if it can't be kept. */
function frozen(body: any, most: number): any {
  const fits = (size: number, make: () => any) => size > most ? undefined : make();
  if (typeof body === 'string') return fits(body.length, () => body);
  if (body instanceof Blob) return fits(body.size, () => body);
  if (body instanceof URLSearchParams) return fits(String(body).length, () => new URLSearchParams(body));
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return fits(body.byteLength, () => new Blob([body as BlobPart]));
  if (body instanceof FormData) {
    const copy = new FormData();
    let size = 0;
    for (const [k, v] of body) {
      size += (v as File).size ?? (v as string).length;
      copy.append(k, v as string);
    }
    return fits(size, () => copy);
  }
}

/** Reads a request's body into memory. whole says at its end, which may come after a challenge, whether parts are all of it: not if it is too large. */
function collect(r: Request, most: number) {
  const reader = r.body!.getReader();
  const parts: Uint8Array[] = [];
  const drop = () => { reader.cancel().catch(nothing); };
  const read = async () => {
    for (let size = 0; ;) {
      const { done, value } = await reader.read();
      if (done) return true;
      if ((size += value.byteLength) > most) return drop();
      parts.push(value);
    }
  };
  return { parts, drop, whole: read().catch(nothing) };
}
