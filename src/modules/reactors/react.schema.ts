// Schemas of POST /reactors/{id}/react. The contract of the formula has the rules for args (modules/code/contract.ts).
import { z } from 'zod';
import { bodyFailures, type Examples, CARD_TOKEN_ID } from '../../platform/http/schemas.ts';
import type { Json } from '../../platform/json/json.ts';
import { EXPRESSION_TOKENS_MAX } from '../tokens/expressions/expansion.ts';
import { GENERIC_TOKEN_ID } from '../tokens/token-examples.ts';
import { exampleReactor } from './reactors.schema.ts';
import { configurationKeywords, formulaFields } from '../code/formula-fields.ts';
import { optional } from '../../platform/base/optional.ts';

const argsField = z
  .any()
  .optional()
  // Null is absence here too: the document says it of any JSON.
  .transform((args: unknown) => (args ?? undefined) as Json | undefined)
  .meta({
    description: `The arguments for the code. The server checks those that the request parameters of the formula name, and casts them to their types. It passes others on unchanged. Strings may contain expressions, over at most ${EXPRESSION_TOKENS_MAX} tokens. A string that is exactly one expression becomes the value itself, such as the whole object of a card.`,
    examples: [{ card: `{{ ${CARD_TOKEN_ID} }}` }],
  });

/** Without a body there are no args. */
export const reactRequest = z
  .object({ args: argsField }, 'the body must be an object with args')
  .meta({ id: 'ReactRequest', description: 'The invocation of a reactor.' })
  .nullish();

export const testRequest = z
  .object(
    {
      code: optional(formulaFields.code).meta({
        description: 'The code to run. Left out: the deployed code.',
        example: exampleReactor.formula.code,
      }),
      configuration: z
        .record(z.string(), z.any(), 'must be an object')
        .meta(configurationKeywords)
        .nullish()
        .transform((configuration) => (configuration ?? undefined) as Record<string, unknown> | undefined)
        .meta({
          description:
            "The configuration to run with, whole, by the formula's contract. Left out: that of the reactor.",
          example: exampleReactor.configuration,
        }),
      args: argsField,
    },
    'the body must be an object',
  )
  .meta({ id: 'TestReactorRequest', description: 'A draft of a reactor to run.' })
  .nullish();

const logLevels = ['debug', 'log', 'info', 'warn', 'error'];

export const reactResponse = z
  .object({
    tokens: z
      .any()
      .optional()
      .meta({
        description: 'The tokens of what the code returned under `tokenize`, as POST /tokenize returns them.',
        examples: [GENERIC_TOKEN_ID],
      }),

    raw: z
      .any()
      .optional()
      .meta({
        description: 'What the code returned under `raw`: any JSON.',
        examples: [{ shop: 'example-shop', last4: '4242' }],
      }),

    logs: z
      .array(
        z
          .object({
            level: z.enum(logLevels).meta({
              description: 'The function of the console that wrote the line.',
              'x-extensible-enum': logLevels,
              example: 'log',
            }),
            text: z.string().meta({ description: 'The text that the code wrote.', example: 'charging example-shop' }),
          })
          .meta({ id: 'CodeLogLine', description: 'A line that code wrote to its console.' }),
      )
      .optional()
      .meta({
        description:
          'What the code wrote to its console, with digits masked that look like a card number. Only on a development server.',
      }),
  })
  .meta({ id: 'ReactorResponse', description: 'The result of the code, without what it did not return.' });

/** Errors that the code throws have statuses of their own. */
export const reactFailures = [...bodyFailures, 404, 408] as const;
const { SHOP } = exampleReactor.configuration;

export const reactExamples: { request: Examples; response: Examples } = {
  request: {
    card: { summary: 'The value of a card as an argument', value: { args: { card: `{{ ${CARD_TOKEN_ID} }}` } } },
  },

  response: {
    card: { summary: 'The last digits of the card', value: { raw: { shop: SHOP, last4: '4242' } } },
  },
};

export const testExamples: { request: Examples; response: Examples } = {
  request: {
    card: {
      summary: 'A sample value in place of a token',
      value: { code: exampleReactor.formula.code, args: { card: { number: '4242424242424242' } } },
    },
  },
  response: reactExamples.response,
};
