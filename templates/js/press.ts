// How a button is pressed: evidence for the gateway, which gates nothing.

/**
 * Calls done once the button is pressed, with the way (a letter: of the pointer's type, k for a key, a for assistive
 * technology, u for a script) and the number of moves of a pointer before, then milliseconds since the call, and of the press.
 */
export const pressed = (b: HTMLElement, done: (how: string) => void) => {
  const began = performance.now();
  const root = b.getRootNode();
  let way = 'a';
  let moves = 0;
  let down = 0;
  root.addEventListener('pointermove', () => { moves++; });
  b.onpointerdown = (e) => { way = e.pointerType[0] ?? 'm'; down = performance.now(); };
  b.onkeydown = () => { way = 'k'; down = performance.now(); };
  b.onclick = (e) => {
    const at = performance.now();
    done('x' + [(e.isTrusted ? way : 'u') + Math.min(moves, 9999), Math.round(at - began), down ? Math.round(at - down) : 0].join('.'));
  };
};
