// The script inside the page of a silent check or a press. It works a little, asks for a part of the page, and sends both on
// with the form; a press waits for its button, and says how that was pressed. The browser signs the answer with its key, if it
// has one. Whatever goes wrong leads to the digits, and so does a browser that is driven.

import { undriven } from './driven';
import { proof } from './keys';
import { pressed } from './press';
import { run, sizeOf } from './toil';

const form = document.getElementById('challenge') as HTMLFormElement;
const button = document.getElementById('press') as HTMLButtonElement | null;
const { work, part } = form.dataset as { work: string; part: string };

const send = (name: string, value: string) => {
  const i = document.createElement('input');
  i.type = 'hidden';
  i.name = name;
  i.value = value;
  form.append(i);
  if (location.hash && !form.action.includes('#')) form.action += location.hash;
  form.submit();
  i.remove();
};

const press = (b: HTMLButtonElement) => new Promise<string>((resolve) => {
  pressed(b, (how) => { b.setAttribute('aria-disabled', 'true'); resolve(how); });
  b.hidden = false;
});

const answer = Promise.all([undriven(JSON.parse(work)).then((task) => run(task, () => {}, new AbortController().signal)), sizeOf(part), button ? press(button) : '']);
Promise.all([answer, proof(form.action, (form.elements.namedItem('key') as HTMLInputElement).value, answer)])
  .then(([parts, signed]) => send('rep', parts.join('') + signed))
  .catch(() => send('step', 'digits'));
