// What a page can see of the browser that shows it: traces of automation, and what no screen is like. A probe that fails says
// nothing. The bits are those of request/evidence.go.

/** Global names that drivers leave in a page or in its document. */
const driven = /^(\$?[cw]dc_|__(webdriver|selenium|driver|fxdriver|playwright|pw_|puppeteer|nightmare)|_(selenium|phantom)$|(callPhantom|callSelenium|domAutomation(Controller)?|awesomium|spawn)$)/;

const named = (o: object) => Object.getOwnPropertyNames(o).some((n) => driven.test(n));

// What a mouse has shown so far, where there is no screen to touch.
let unpressed = false, astray = false;
let last: { at: number; onScreen: number; window: string } | undefined;

/**
 * Looks at an event of the pointer. A mouse that presses has a pressure of one half, whatever system its button is read by. And where the
 * page is in its window follows from two places on the screen and on the page, however far it is zoomed: not above the window, and no
 * further below its edge than what the window has for itself.
 */
export const point = (e: PointerEvent) => {
  if (!e.isTrusted || e.pointerType !== 'mouse' || navigator.maxTouchPoints > 0) return;
  if (e.type === 'pointerdown' && e.buttons && !e.pressure) unpressed = true;
  if (self !== top || (last && Math.abs(e.clientY - last.at) < far)) return; // what follows may lay the page out
  if (visualViewport && visualViewport.scale !== 1) { // pinched larger
    last = undefined;
    return;
  }
  const now = { at: e.clientY, onScreen: e.screenY, window: [screenX, screenY, outerWidth, outerHeight, innerHeight].join() };
  if (last?.window === now.window) {
    const zoom = (now.onScreen - last.onScreen) / (now.at - last.at);
    const edge = now.onScreen - zoom * now.at - screenY;
    if (zoom > 0 && (edge < -near || edge > Math.max(0, outerHeight - zoom * innerHeight) + near)) astray = true;
  }
  last = now;
};

const far = 100, near = 32; // pixels

/** Whether an inspector listens to the page's console: it reads where an error is from, and nobody else does by itself. A page that is being left has none. */
const listens = () => {
  const v8 = Error as { prepareStackTrace?: unknown };
  if (Function.prototype.toString.call(console.debug) !== 'function debug() { [native code] }') return false; // a script of the page listens
  const before = Object.getOwnPropertyDescriptor(v8, 'prepareStackTrace');
  let read = false;
  v8.prepareStackTrace = (e: unknown) => {
    read = true;
    return String(e);
  };
  try {
    console.debug(new Error('no error: antirobot asks whether an inspector is attached'));
  } finally {
    if (before) Object.defineProperty(v8, 'prepareStackTrace', before);
    else delete v8.prepareStackTrace;
  }
  return read;
};

const found = (p: () => unknown) => {
  try {
    return !!p();
  } catch {
    return false;
  }
};

const inspected = found(listens);

const probes: (() => unknown)[] = [
  () => navigator.webdriver,
  () => named(window) || named(document) || document.documentElement.hasAttribute('webdriver'),
  () => !(screen.width > 0 && screen.height > 0 && screen.colorDepth > 0),
  () => screen.availWidth > screen.width || screen.availHeight > screen.height,
  () => document.visibilityState === 'visible' && !document.documentElement.ontouchstart && !outerWidth && !outerHeight,
  () => Intl.DateTimeFormat().resolvedOptions().timeZone === 'UTC',
  () => unpressed,
  () => astray,
  () => inspected,
];

/** One bit for each probe that found something. */
export const probe = () => probes.reduce((bits, p, i) => found(p) ? bits | 1 << i : bits, 0);
