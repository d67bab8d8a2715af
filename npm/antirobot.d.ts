/** The dialog's texts, by their keys in the gateway's catalogues. */
export type TextKey = 'challenge_heading' | 'reason_network' | 'reason_pace' | 'reason_message' | 'reason_load' | 'reason_service' | 'dialog_todo' | 'picture_alt' | 'audio_label' | 'new_picture' | 'answer_label' | 'answer_hint' | 'continue' | 'cancel' | 'checking' | 'problem_failed' | 'problem_expired' | 'limited_text' | 'offline' | 'why_heading' | 'why_text' | 'request_id' | 'test_notice' | 'work_offer' | 'work_running' | 'work_failed' | 'press_todo' | 'press_button' | 'digits_instead';
/** What is told of a moving picture: fetched when there is one. */
export type MovingKey = 'moving_todo' | 'moving_label' | 'moving_hint';
/** What is told of a wait; where it is not built in, it is fetched when somebody has to wait. */
export type WaitKey = 'goes_on' | `limited_wait_${'seconds' | 'minutes'}_${'zero' | 'one' | 'two' | 'few' | 'many' | 'other'}`;
/** The gateway's challenge. All URLs are absolute. */
export interface Challenge {
    key: string;
    image: string;
    audio: string;
    /** URL for the answer: POST key and rep. */
    check: string;
    /** The same challenge as a separate page, which leads back to the request's URL. */
    page: string;
    status: '' | 'failed' | 'expired';
    /** How many digits are asked for. */
    length: number;
    /** Seconds until the key expires. */
    expiresIn: number;
    requestId: string;
    /** Why somebody is asked. */
    reason: 'network' | 'pace' | 'message' | 'load' | 'service';
    /** Always false: the service has not seen the request. */
    forwarded: boolean;
    /** Every challenge of this site accepts the same answer. */
    test: boolean;
    /** The site lets the browser work instead of the person: session.work(). */
    work: boolean;
    /**
     * What is asked for, beside digits: silent, a check of the browser, or press, the same after somebody has pressed a button:
     * session.check(); dynamic: directions of a moving picture, session.follow().
     */
    step: 'silent' | 'press' | 'dynamic' | '';
    /** With the step dynamic: the moving picture, and a sound that says the digits of a keypad for its directions. */
    moving?: {
        image: string;
        audio: string;
    };
}
/** The result of an answer; next: another moving picture follows; new: another picture; stopped: the work was stopped; unable: the browser can't work here; over: somebody else answered first, or nobody waits any more. */
export type Outcome = 'passed' | 'wrong' | 'expired' | 'limited' | 'offline' | 'next' | 'new' | 'stopped' | 'unable' | 'over';
/** A challenge in progress, for custom interfaces. */
export interface Session {
    /** The current challenge; a wrong answer brings another. */
    readonly challenge: Challenge;
    /** Aborted when it is over: passed (here or in another tab), cancelled, or nobody waits any more. */
    readonly signal: AbortSignal;
    /** With the outcome limited: seconds until another try makes sense; 0: unknown. */
    readonly retryAfter: number;
    answer(digits: string): Promise<Outcome>;
    /** Lets the browser work instead, if challenge.work says so. progress gets the share done so far, up to 1. */
    work(progress?: (share: number) => void, signal?: AbortSignal): Promise<Outcome>;
    /** Lets the browser be checked, if challenge.step says so; how: how a button was pressed, as evidence. */
    check(how?: string): Promise<Outcome>;
    /** Answers a moving picture, if challenge.step is dynamic: arrows, or the digits of a keypad. */
    follow(directions: string): Promise<Outcome>;
    /** Another picture; nothing is lost. */
    renew(): Promise<Outcome>;
    cancel(): void;
}
export type UI = 'dialog' | 'redirect' | 'none' | Element | ((session: Session) => void);
export type Replay = 'auto' | 'safe' | 'never' | ((request: {
    method: string;
    url: string;
}, challenge: Challenge) => boolean | Promise<boolean>);
export type Matcher = string | RegExp | ((url: URL) => boolean);
export interface Options {
    /** Origins whose challenges are answered; the page's own is always one. */
    origins?: string[];
    /** Requests to leave alone: path prefixes, patterns over the whole URL, or functions. */
    exclude?: Matcher[];
    /** Default: dialog. */
    ui?: UI;
    /** What may be repeated after the answer. auto: everything; safe: GET, HEAD and OPTIONS. */
    replay?: Replay;
    /** Bodies larger than this many bytes are not kept for a repeat. Default: 1 MiB. */
    maxBody?: number;
    /** How often one request may be challenged again after a right answer. Default: 2. */
    rounds?: number;
    /** Language of the dialog. Default: the page's, otherwise the browser's. */
    lang?: string;
    /** Default: auto. */
    theme?: 'auto' | 'light' | 'dark';
    /** Nonce for the dialog's style under a content security policy, in browsers without constructed style sheets. */
    nonce?: string;
    /** Custom texts that replace the dialog's. */
    text?: Partial<Record<TextKey | MovingKey | WaitKey, string>>;
    /** URL of work.js, for work instead of the puzzle. Default: the gateway's own if it is on the page's origin. */
    work?: string;
    /** Credentials mode of wrapped requests that specify none. */
    credentials?: RequestCredentials;
}
export interface EventMap {
    /** The person is about to be asked. preventDefault() takes over: use the session. */
    challenge: Session;
    shown: Session;
    answer: {
        session: Session;
        outcome: Outcome;
    };
    wrong: Session;
    passed: {
        origin: string;
    };
    replayed: {
        url: string;
        method: string;
    };
    cancelled: AntirobotCancelled;
    blocked: AntirobotBlocked;
    error: unknown;
}
export type State = 'idle' | 'waiting' | 'asking';
export interface Antirobot {
    fetch: typeof fetch;
    isChallenge(response: Response): boolean;
    /** The challenge in a response, or null. The response stays readable. */
    read(response: Response): Promise<Challenge | null>;
    /** Asks the person; resolves when there is a pass. */
    solve(challenge: Challenge, signal?: AbortSignal | null): Promise<void>;
    /**
     * Resolves when the URL (also of a WebSocket) may be opened by what can't be asked itself: a WebSocket, an EventSource. It requests the
     * URL, reads no more than the head of its answer, and rejects as fetch does.
     */
    ready(url: string | URL): Promise<void>;
    /** Patches the globals; the returned function undoes it. */
    install(what?: {
        fetch?: boolean;
        xhr?: boolean;
    }): () => void;
    on<K extends keyof EventMap>(type: K, listener: (event: CustomEvent<EventMap[K]>) => void): () => void;
    /** idle; waiting: requests wait, the dialog is in another tab; asking. */
    readonly state: State;
}
/** The person closed the dialog, or there is no interface that could ask. */
export declare class AntirobotCancelled extends Error {
    readonly challenge: Challenge;
    readonly name = "AntirobotCancelled";
    /** As axios says it of what was aborted, and does not repeat. */
    readonly code = "ECONNABORTED";
    constructor(challenge: Challenge);
}
/** The gateway refuses the client; or, with reason rounds, asks again although the answer was right, most likely because its cookie is not kept. */
export declare class AntirobotBlocked extends Error {
    readonly reason: 'blocked' | 'rounds';
    readonly requestId: string;
    readonly response?: Response | undefined;
    readonly name = "AntirobotBlocked";
    constructor(reason: 'blocked' | 'rounds', requestId: string, response?: Response | undefined);
}
/** There is a pass, but the request could not be repeated: send it again. */
export declare class AntirobotNotReplayable extends Error {
    readonly why: 'body' | 'replay';
    readonly challenge: Challenge;
    readonly name = "AntirobotNotReplayable";
    constructor(why: 'body' | 'replay', challenge: Challenge);
}
export declare function createAntirobot(options?: Options): Antirobot;
