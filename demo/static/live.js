// The clock over a WebSocket and the same over server-sent events.
'use strict';
(() => {
  const at = (id) => document.getElementById(id);
  const words = at('live').dataset;
  const clock = (time) => time.slice(11, 19);
  let socket;
  let wait = 1000;

  const join = () => {
    at('clock-state').textContent = words.joining;
    socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/live/clock`);
    socket.addEventListener('open', () => { wait = 1000; at('clock-state').textContent = words.open; });
    socket.addEventListener('message', (event) => {
      const got = JSON.parse(event.data);
      if (got.time) at('clock').textContent = clock(got.time);
      if (got.echo !== undefined) at('heard').textContent = `← ${got.echo}`;
    });
    socket.addEventListener('close', () => {
      at('clock-state').textContent = words.shut;
      setTimeout(join, wait);
      wait = Math.min(wait * 2, 30000);
    });
  };
  join();

  at('echo').addEventListener('submit', (event) => {
    event.preventDefault();
    if (socket.readyState === WebSocket.OPEN) socket.send(at('say').value);
  });

  const events = new EventSource('/live/events');
  events.addEventListener('open', () => { at('events-state').textContent = words.open; });
  events.addEventListener('error', () => { at('events-state').textContent = words.shut; });
  events.addEventListener('message', (event) => {
    const got = JSON.parse(event.data);
    at('events').textContent = clock(got.time);
    at('count').textContent = got.n;
  });
})();
