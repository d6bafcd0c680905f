// Adds up the metrics of workers in their supervisor, by messages. The counts of workers that ended stay in the sums.
import type { Worker } from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import { createMetrics, type Metrics } from './platform/metrics/metrics.ts';
import { addReports, countsOf, type MetricReport, renderMetrics } from './platform/metrics/render.ts';
import type { FromWorker, ToWorker } from './worker-messages.ts';

/** A worker whose event loop is busy for longer is left out of a scrape, but for what it has counted before. */
const REPORT_MS_MAX = 2_000;
/** A worker waits longer for its supervisor than the supervisor for the other workers. */
const TEXT_MS_MAX = 2 * REPORT_MS_MAX;

/** Answers to messages, by the id of the question. */
const createQuestions = <Answer>(waitMs: number) => {
  const open = new Map<number, (answer: Answer) => void>();
  let lastId = 0;
  return {
    /** @returns undefined where no answer comes in time. */
    ask: async (send: (id: number) => void): Promise<Answer | undefined> => {
      lastId += 1;
      const id = lastId;
      const { promise, resolve } = Promise.withResolvers<Answer>();
      open.set(id, resolve);
      send(id);
      try {
        return await Promise.race([promise, pause(waitMs, undefined, { ref: false })]);
      } finally {
        open.delete(id);
      }
    },
    answer: (id: number, answer: Answer): void => open.get(id)?.(answer),
  };
};

export type WorkerFigures = {
  /** Handles a message of a worker about metrics. */
  receive(worker: Worker, message: FromWorker): void;
  /** A worker has ended. @param isWanted as it should. */
  ended(worker: Worker, isWanted: boolean): void;
  /** The metrics of all workers and of this process. */
  text(): Promise<string>;
};

/** Metrics of a process that only supervises. */
const metricsOfSupervisor = (): Metrics => {
  const metrics = createMetrics();
  metrics.watchProcess();
  return metrics;
};

/** The side of the process that starts workers. @param workers those that run. @param own of that process. */
export const createWorkerFigures = (
  workers: () => Iterable<Worker>,
  send: (worker: Worker, message: ToWorker) => void,
  own = metricsOfSupervisor(),
): WorkerFigures => {
  const questions = createQuestions<readonly MetricReport[]>(REPORT_MS_MAX);
  /** The last counts of each worker. */
  const latest = new Map<Worker, readonly MetricReport[]>();
  /** The counts of workers that ended: a sum that falls would look like a restart of the server. */
  const past: (readonly MetricReport[])[] = [];
  let rendering: Promise<string> | undefined;

  const states = { answering: 0, silent: 0 };
  own.read('strongroom_workers', () => [
    [{ state: 'answering' }, states.answering],
    [{ state: 'silent' }, states.silent],
  ]);

  const reportOf = async (worker: Worker): Promise<readonly MetricReport[]> => {
    // One that ends meanwhile is not in the counts of those that ended before.
    const before = latest.get(worker) ?? [];
    const report = await questions.ask((id) => send(worker, { kind: 'send_metrics', id }));
    if (report === undefined) return before;
    states.answering += 1;
    if (worker.isConnected()) latest.set(worker, countsOf(report));
    return report;
  };

  const render = async (): Promise<string> => {
    const asked = [...workers()];
    const ended = [...past];
    states.answering = 0;
    const reports = await Promise.all(asked.map(reportOf));
    states.silent = asked.length - states.answering;
    if (ended.length > 1) past.splice(0, ended.length, await addReports(ended));
    // The reports of workers come first: of some metrics the first value stands.
    return renderMetrics([...reports, ...ended, await own.report()]);
  };

  return {
    receive: (worker, message) => {
      if (message.kind === 'metrics') questions.answer(message.id, message.report);
      else if (message.kind === 'ask_metrics_text')
        void text().then(
          (answer) => send(worker, { kind: 'metrics_text', id: message.id, text: answer }),
          // No answer is one, too: the worker's client gets an error.
          () => undefined,
        );
    },
    ended: (worker, isWanted) => {
      if (!isWanted) own.count('strongroom_workers_ended_total', {});
      const counts = latest.get(worker);
      if (counts) past.push(counts);
      latest.delete(worker);
    },
    text,
  };

  /** Scrapes at the same time share one answer. */
  function text(): Promise<string> {
    rendering ??= render().finally(() => (rendering = undefined));
    return rendering;
  }
};

export type WorkerMetrics = {
  /** Handles a message of the supervisor about metrics. */
  receive(message: ToWorker): void;
  /** Asks the supervisor for the metrics of all workers. @throws where it does not answer. */
  text(): Promise<string>;
  /** From where the figures of this worker are read, once it has some. */
  setSource(metrics: Metrics): void;
};

/** A worker's side. */
export const createWorkerMetrics = (send: (message: FromWorker) => void): WorkerMetrics => {
  const questions = createQuestions<string>(TEXT_MS_MAX);
  let source: Metrics | undefined;
  return {
    receive: (message) => {
      if (message.kind === 'metrics_text') questions.answer(message.id, message.text);
      else if (message.kind === 'send_metrics')
        void source?.report().then(
          (report) => send({ kind: 'metrics', id: message.id, report }),
          // The supervisor counts it as silent.
          () => undefined,
        );
    },
    text: async () => {
      const text = await questions.ask((id) => send({ kind: 'ask_metrics_text', id }));
      if (text === undefined) throw new Error('the supervisor sent no metrics');
      return text;
    },
    setSource: (metrics) => {
      source = metrics;
    },
  };
};
