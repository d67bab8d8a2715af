// The plain script: it provides everything as window.antirobot and, with the attribute data-install, starts at once:
//
//   <script src="/captcha/antirobot.js" data-install></script>
//
// data-install may name what is patched ("fetch", "xhr"; both by default); data-ui, data-lang, data-theme, data-origins
// (separated by spaces) and data-credentials are the options of the same name.

import { AntirobotBlocked, AntirobotCancelled, AntirobotNotReplayable, createAntirobot, type Antirobot, type Options, type UI } from './antirobot';

const script = document.currentScript as HTMLScriptElement | null;

const start = (d: DOMStringMap): Antirobot => {
  const what = d.install || 'fetch xhr';
  const made = createAntirobot({
    origins: [new URL(script!.src).origin, ...d.origins?.split(' ').filter(Boolean) ?? []],
    nonce: script!.nonce,
    work: new URL('work.js', script!.src).href,
    ...d.ui && { ui: d.ui as UI },
    ...d.lang && { lang: d.lang },
    ...d.theme && { theme: d.theme as Options['theme'] },
    ...d.credentials && { credentials: d.credentials as RequestCredentials },
  });
  made.install({ fetch: what.includes('fetch'), xhr: what.includes('xhr') });
  return made;
};

Object.assign(globalThis, {
  antirobot: {
    AntirobotBlocked, AntirobotCancelled, AntirobotNotReplayable, createAntirobot,
    /** The instance that data-install has started, otherwise null. */
    installed: script?.dataset.install === undefined ? null : start(script.dataset),
  },
});
