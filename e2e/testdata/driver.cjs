// Drives a browser by one of the tools of Node.js. What to start is JSON in the first argument; then each line of the input is
// a command, and each line of the output its result: {"value": …} or {"error": …}.
'use strict';

const want = JSON.parse(process.argv[2]); // tool, dress, browser, driver, flags, profile
const patience = 85e3; // ms, a little less than that of the tests, so that the tool says what it waited for
const hidden = want.dress === 'hidden';
const hide = () => Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => false });
const links = () => [...document.querySelectorAll('a[href]')].map((a) => a.getAttribute('href'));

// onPage is what Playwright and Puppeteer do alike.
const onPage = (page) => ({
  open: (url) => page.goto(url),
  click: (selector) => Promise.all([page.waitForNavigation(), page.click(selector)]),
  script: (selector) => Promise.all([page.waitForNavigation(), page.$eval(selector, (a) => a.click())]),
  read: () => page.evaluate(links),
  at: () => page.url(),
});

const tools = {
  async playwright() {
    const { chromium } = require('playwright-core');
    const browser = await chromium.launch({ executablePath: want.browser, timeout: patience, args: want.flags, ignoreDefaultArgs: hidden ? ['--enable-automation'] : [] });
    const context = await browser.newContext();
    if (hidden) await context.addInitScript(hide);
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    return {
      ...onPage(page),
      move: (x, y) => page.mouse.move(x, y, { steps: 12 }),
      scroll: (by) => page.mouse.wheel(0, by),
      close: () => browser.close(),
      version: () => `Playwright ${require('playwright-core/package.json').version}, Chromium ${browser.version()}`,
    };
  },

  puppeteer: () => puppeteer('chrome'),
  'puppeteer-firefox': () => puppeteer('firefox'),

  async selenium() {
    const { Builder, By } = require('selenium-webdriver');
    const chrome = require('selenium-webdriver/chrome');
    const options = new chrome.Options().setChromeBinaryPath(want.browser).addArguments('--headless=new', `--user-data-dir=${want.profile}`, ...want.flags);
    if (hidden) options.excludeSwitches('enable-automation');
    const service = new chrome.ServiceBuilder(want.driver);
    const driver = await new Builder().forBrowser('chrome').setChromeOptions(options).setChromeService(service).build();
    if (hidden) await driver.sendDevToolsCommand('Page.addScriptToEvaluateOnNewDocument', { source: `(${hide})()` });
    const leave = async (before) => { // a click waits for the page that it leads to, unless a script clicks
      await driver.wait(async () => await driver.getCurrentUrl() !== before && await driver.executeScript('return document.readyState') === 'complete', patience);
    };
    return {
      open: (url) => driver.get(url),
      click: async (selector) => { const at = await driver.getCurrentUrl(); await driver.findElement(By.css(selector)).click(); await leave(at); },
      script: async (selector) => { const at = await driver.getCurrentUrl(); await driver.executeScript('document.querySelector(arguments[0]).click()', selector); await leave(at); },
      read: () => driver.executeScript(`return (${links})()`),
      at: () => driver.getCurrentUrl(),
      move: (x, y) => driver.actions().move({ x: Math.round(x), y: Math.round(y) }).perform(),
      scroll: (by) => driver.actions().scroll(100, 100, 0, Math.round(by)).perform(),
      close: () => driver.quit(),
      version: async () => `Selenium ${require('selenium-webdriver/package.json').version}, ${(await driver.getCapabilities()).get('browserName')} ${(await driver.getCapabilities()).get('browserVersion')}`,
    };
  },
};

async function puppeteer(kind) {
  const { default: lib } = require('puppeteer-core');
  const browser = await lib.launch({
    browser: kind, executablePath: want.browser, args: want.flags, userDataDir: want.profile, protocolTimeout: patience, timeout: patience,
    ignoreDefaultArgs: hidden && kind === 'chrome' ? ['--enable-automation'] : false,
  });
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  if (hidden) await page.evaluateOnNewDocument(hide);
  return {
    ...onPage(page),
    move: (x, y) => page.mouse.move(Math.round(x), Math.round(y), { steps: 12 }),
    scroll: (by) => page.mouse.wheel({ deltaY: Math.round(by) }),
    close: () => browser.close(),
    version: async () => `Puppeteer ${require('puppeteer-core/package.json').version}, ${await browser.version()}`,
  };
}

(async () => {
  let driver;
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');
  try {
    driver = await tools[want.tool]();
    say({ value: await driver.version() });
  } catch (e) {
    say({ error: String(e.stack ?? e) });
    process.exit(1);
  }
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [command, ...args] = JSON.parse(line);
    try {
      const value = await driver[command](...args);
      say({ value: command === 'read' || command === 'at' ? value : null });
    } catch (e) {
      say({ error: `${command}: ${e.stack ?? e}` });
    }
  }
  await driver.close();
  process.exit(0);
})();
