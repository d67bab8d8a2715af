// What tells a page that a program drives its browser.

import type { Task } from './toil';

/** Global names that drivers leave in a page or in its document. */
const left = /^(\$?[cw]dc_|__(webdriver|selenium|driver|fxdriver|playwright|pw_|puppeteer|nightmare)|_(selenium|phantom)$|(callPhantom|callSelenium|domAutomation(Controller)?|awesomium|spawn)$)/;

const has = (o: object) => Object.getOwnPropertyNames(o).some((n) => left.test(n));

/** Whether a driver has left names of its own. */
export const named = () => has(window) || has(document) || document.documentElement.hasAttribute('webdriver');

/** Whether the browser says that it is driven. */
export const says = () => navigator.webdriver;

/** Whether an inspector listens to the page's console: it reads where an error is from, and nobody else does by itself. A page that is being left has none. */
export const listens = () => {
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

/** What a look finds; nothing where it fails. */
export const found = (p: () => unknown) => {
  try {
    return !!p();
  } catch {
    return false;
  }
};

/** A check's task, refused where it asks to look and the browser is driven: whatever drives it passes the rest of a check. */
export const undriven = async (task: Task) => {
  if (task.look && [says, named, listens].some(found)) throw new Error('driven');
  return task;
};
