// What a page can see of the browser that shows it: traces of automation, and what no screen is like. A probe that fails says
// nothing. The bits are those of request/evidence.go.

/** Global names that drivers leave in a page or in its document. */
const driven = /^(\$?[cw]dc_|__(webdriver|selenium|driver|fxdriver|playwright|pw_|puppeteer|nightmare)|_(selenium|phantom)$|(callPhantom|callSelenium|domAutomation(Controller)?|awesomium|spawn)$)/;

const named = (o: object) => Object.getOwnPropertyNames(o).some((n) => driven.test(n));

const probes: (() => unknown)[] = [
  () => navigator.webdriver,
  () => named(window) || named(document) || document.documentElement.hasAttribute('webdriver'),
  () => !(screen.width > 0 && screen.height > 0 && screen.colorDepth > 0),
  () => screen.availWidth > screen.width || screen.availHeight > screen.height,
  () => document.visibilityState === 'visible' && !document.documentElement.ontouchstart && !outerWidth && !outerHeight,
  () => Intl.DateTimeFormat().resolvedOptions().timeZone === 'UTC',
];

/** One bit for each probe that found something. */
export const probe = () => probes.reduce((bits, p, i) => {
  try {
    return p() ? bits | 1 << i : bits;
  } catch {
    return bits;
  }
}, 0);
