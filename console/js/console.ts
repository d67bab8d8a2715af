// What is live in the console: new rows of the journal, and "/" for the search field. Every page works without it.

const every = 2000;

const live = document.getElementById('live');
const rows = document.getElementById('rows');

if (live && rows) {
  live.hidden = false;
  let timer = 0;
  const look = async (): Promise<void> => {
    try {
      const answer = await fetch(location.href, { credentials: 'same-origin', redirect: 'error' });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const fresh = page.getElementById('rows');
        // Nothing is replaced under somebody who is reading a link with the keyboard.
        if (fresh && !rows.contains(document.activeElement)) rows.replaceChildren(...fresh.children);
      }
    } catch {
      // The gateway is away, or the session has ended: the next look, or a reload, will tell.
    }
    if (timer) timer = window.setTimeout(look, every);
  };
  live.addEventListener('click', () => {
    const on = !timer;
    live.setAttribute('aria-pressed', String(on));
    clearTimeout(timer);
    timer = on ? window.setTimeout(look, 0) : 0;
  });
}

document.addEventListener('keydown', (e) => {
  const at = e.target;
  if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || at instanceof HTMLInputElement || at instanceof HTMLSelectElement || at instanceof HTMLTextAreaElement) return;
  const field = document.getElementById('q');
  if (field instanceof HTMLInputElement) {
    e.preventDefault();
    field.focus();
    field.select();
  }
});
