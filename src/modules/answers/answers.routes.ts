// Routes of /access: who may do what, and why.
import type { FastifyReply } from 'fastify';
import type { App } from '../../platform/http/app-type.ts';
import { releaseAfter } from '../../platform/http/connections.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import {
  attestation,
  attestationExamples,
  explainExamples,
  explanation,
  newAttestation,
  question,
  review,
  reviewExamples,
  reviewQuery,
  simulated,
  simulation,
  simulationExamples,
} from './answers.schema.ts';
import { attestReview } from './attest.ts';
import type { AnswersContext } from './context.ts';
import { explainAccess } from './explain.ts';
import { writeReview } from './review-file.ts';
import { simulateChange } from './simulate.ts';

const tags = ['Access'];

export const answersRoutes = (app: App, ctx: AnswersContext): void => {
  app.post(
    '/access/explain',
    {
      config: { permission: 'access:read', idempotency: 'none' },
      schema: {
        operationId: 'explainAccess',
        summary: 'Explain an access decision',
        description:
          'Says whether an application or a member may do something with a token, which rule decides, which rules were skipped and why, and which other checks a request passes. The routes decide by the same function. Nothing is opened, sent or counted. A token, application, member or proxy of another tenant is a 404.\n\nPermission: `access:read`. A question about another than the caller also needs `application:read`.',
        tags,
        body: question,
        answer: 'The decision, and why.',
        examples: explainExamples,
        response: { 200: explanation, ...failures(...commonFailures, 404, 413, 415) },
      },
    },
    async (request) => explainAccess(ctx, workOf(request), request.body),
  );

  app.get(
    '/access/review',
    {
      config: { permission: 'access:read' },
      schema: {
        operationId: 'reviewAccess',
        summary: 'Review who may do what',
        description:
          'Returns a row for each application, API key, member, stored proxy without authentication, and creator of sessions: what it may reveal, use and change, where it may send, its limits, its last use, and what nobody may be responsible for. It is whole, or it fails. `SVC-REVIEW-DIGEST` has the SHA-256 of the file, which an attestation names. With `format=csv` the response is `text/csv`, and a cell that a spreadsheet would run as a formula is text.\n\nPermission: `access:read`.',
        tags,
        querystring: reviewQuery,
        answer: 'The review.',
        examples: reviewExamples,
        response: { 200: review, ...failures(...commonFailures) },
      },
    },
    async (request, reply) => {
      const { format = 'json' } = request.query;
      const { text, digest, reservations } = await writeReview(ctx, workOf(request), format);
      for (const each of reservations) releaseAfter(reply.raw, each);
      const type = format === 'csv' ? 'text/csv' : 'application/json';
      return (reply as FastifyReply).header('svc-review-digest', digest).type(`${type}; charset=utf-8`).send(text);
    },
  );

  app.post(
    '/access/review/attestations',
    {
      // A repetition is another entry of the log.
      config: { permission: 'access:read', idempotency: 'none' },
      schema: {
        operationId: 'attestReview',
        summary: 'Attest a review',
        description:
          'Writes to the log that the caller has read a review, with the digest of its file and a note. `doctor` warns where the last attestation of a tenant is over six months old.\n\nPermission: `access:read`.',
        tags,
        body: newAttestation,
        answer: 'The attestation.',
        examples: attestationExamples,
        response: { 200: attestation, ...failures(...commonFailures, 413, 415) },
      },
    },
    async (request) => attestReview(ctx, workOf(request), request.body),
  );

  app.post(
    '/access/simulate',
    {
      config: { permission: 'access:read', idempotency: 'none' },
      schema: {
        operationId: 'simulateAccess',
        summary: 'Try a change of an application',
        description:
          'Decides what an application did in the last days once more, with its rights of now and with others, over the containers that its tokens are in now. Nothing is changed. What a save of these rights by the caller would refuse is a 422.\n\nPermission: `access:read` and `application:read`.',
        tags,
        body: simulation,
        answer: 'The decisions that change.',
        examples: simulationExamples,
        response: { 200: simulated, ...failures(...commonFailures, 404, 413, 415, 422) },
      },
    },
    async (request) => simulateChange(ctx, workOf(request), request.body),
  );
};
