import { AntirobotBlocked, AntirobotCancelled, AntirobotNotReplayable, createAntirobot } from 'antirobot';
import { useEffect, useState } from 'react';

// One instance for the whole application. Hand robot.fetch to whatever fetches: a query library, a generated client.
const robot = createAntirobot({ origins: ['https://api.example.com'], credentials: 'include' });

interface Item { id: number; title: string }

async function load(url: string, signal: AbortSignal): Promise<Item[]> {
  const answer = await robot.fetch(url, { signal });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return (await answer.json()).items;
}

function explain(error: unknown): string {
  if (error instanceof AntirobotCancelled) return 'You closed the question. Try again whenever you like.';
  if (error instanceof AntirobotNotReplayable) return 'Thank you. Please send it again.';
  if (error instanceof AntirobotBlocked) return `The site refuses this request. Request number: ${error.requestId}`;
  return 'That did not work.';
}

export function List({ url }: { url: string }) {
  const [items, setItems] = useState<Item[]>([]);
  const [problem, setProblem] = useState('');
  const [asked, setAsked] = useState(0);

  useEffect(() => {
    const gone = new AbortController(); // leaving the page also stops waiting for the dialog
    load(url, gone.signal).then(setItems, (error: unknown) => {
      if (!gone.signal.aborted) setProblem(explain(error));
    });
    return () => gone.abort();
  }, [url, asked]);

  return (
    <section>
      <ul>{items.map((item) => <li key={item.id}>{item.title}</li>)}</ul>
      {problem && (
        <p role="alert">
          {problem} <button onClick={() => { setProblem(''); setAsked(asked + 1); }}>Try again</button>
        </p>
      )}
    </section>
  );
}
