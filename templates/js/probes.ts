// What a page can see of the browser that shows it: traces of automation. A probe that fails says
// nothing. The bits are those of request/evidence.go.

import { found, listens, named, says } from './driven';

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

const inspected = found(listens);

const probes: (() => unknown)[] = [
  says,
  named,
  () => unpressed,
  () => astray,
  () => inspected,
];

/** One bit for each probe that found something. */
export const probe = () => probes.reduce((bits, p, i) => found(p) ? bits | 1 << i : bits, 0);
