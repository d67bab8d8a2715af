// The script inside a page with digits or a moving picture: what is answered there is signed. page.js signs what the browser
// answers by work.

import { proof, type Proof } from './keys';

(globalThis as unknown as { antirobotProof: Proof }).antirobotProof = proof;

const form = document.getElementById('challenge') as HTMLFormElement | null;
const key = form?.elements.namedItem('key') as HTMLInputElement | null;

if (form && key) {
  proof(form.action, key.value, new Promise(() => {})).then((signed) => { // however long it takes: somebody types meanwhile
    const i = document.createElement('input');
    i.type = 'hidden';
    i.name = 'proof';
    i.value = signed.slice(1);
    form.append(i);
  });
}
