// A destination for the guides (`npm run echo`): it returns the requests that it receives.
import { serveDestination } from './destination.ts';

const parse = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
};

serveDestination('answers with what it receives', ({ method, url, headers, body }) => ({
  status: 200,
  json: { method, url, headers, body: parse(body) },
}));
