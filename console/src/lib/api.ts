// Requests to the server. Every address begins with `/api/`: no request leaves the origin of the page.

export class Failure extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
  ) {
    super(message);
  }
  get gone(): boolean {
    return this.status === 0;
  }
  get forbidden(): boolean {
    return this.status === 403;
  }
  get login(): boolean {
    return this.status === 401;
  }
}

type Query = Record<string, string | number | null | undefined | readonly string[]>;

/** The address of a path below `/api/`, with those parameters that have a value. */
export function address(path: string, query: Query = {}): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const text = Array.isArray(value) ? value.join(',') : value;
    if (text !== null && text !== undefined && text !== '') parts.set(name, String(text));
  }
  const text = parts.toString();
  return `/api/${path}${text ? `?${text}` : ''}`;
}

/** The path of a stream below `/api/`. */
export const streamPath = (name: string, rest = ''): string =>
  `streams/${encodeURIComponent(name)}${rest ? `/${rest}` : ''}`;

let loginNeeded: () => void = () => {};

/** What is called when the server answers that the session has ended. */
export function onLoginNeeded(callback: () => void): void {
  loginNeeded = callback;
}

export async function request(method: string, url: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: 'application/json' };
  if (method !== 'GET') headers['x-tapedb'] = '1';
  if (method !== 'GET') headers['content-type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      credentials: 'same-origin',
      redirect: 'error',
      ...(method === 'GET' ? {} : { body: JSON.stringify(body ?? {}) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure('The server does not answer.', 0, 'gone');
  }
  if (response.ok) return response;
  const failure = await failureOf(response);
  if (failure.login && !url.startsWith('/api/login')) loginNeeded();
  throw failure;
}

async function failureOf(response: Response): Promise<Failure> {
  let text = '';
  let code = 'error';
  try {
    const answer = (await response.json()) as { error?: string; code?: string };
    text = answer.error ?? '';
    code = answer.code ?? code;
  } catch {
    // Not JSON: the status is all there is.
  }
  return new Failure(text || `The server answers with status ${response.status}.`, response.status, code);
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const response = await request('GET', address(path, query), undefined, signal);
  return (await response.json()) as T;
}

export async function send<T>(method: string, path: string, body?: unknown): Promise<T | null> {
  const response = await request(method, address(path), body);
  const text = await response.text();
  return text ? (JSON.parse(text) as T) : null;
}

/** The text of anything that was thrown. */
export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

/** Sends a file, and tells how many bytes of it are sent. */
export function upload<T>(path: string, query: Query, file: Blob, progress: (bytes: number) => void, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const asked = new XMLHttpRequest();
    const gone = () => reject(new Failure(signal.aborted ? 'The upload was cancelled.' : 'The upload has broken off.', 0, 'gone'));
    asked.open('POST', address(path, query));
    asked.setRequestHeader('x-tapedb', '1');
    asked.setRequestHeader('content-type', 'application/octet-stream');
    asked.upload.onprogress = (event) => progress(event.loaded);
    asked.onerror = gone;
    asked.onabort = gone;
    asked.onload = () => {
      let answer: { error?: string; code?: string } = {};
      try {
        answer = JSON.parse(asked.responseText) as typeof answer;
      } catch {
        // Not JSON: the status is all there is.
      }
      if (asked.status === 200) return resolve(answer as T);
      if (asked.status === 401) loginNeeded();
      reject(new Failure(answer.error || `The server answers with status ${asked.status}.`, asked.status, answer.code ?? 'error'));
    };
    signal.addEventListener('abort', () => asked.abort());
    asked.send(file);
  });
}
