// Wire shapes of POST /reactors/{id}/react. What args must be is said by the formula's contract (runtime/contract.ts).
import { z } from 'zod';
import { cardTokenId, exampleReactor, genericTokenId } from '../../http/openapi-examples.ts';
import { bodyFailures, type Examples } from '../../http/schemas.ts';

/** Without a body there are no args. Json in the rule; a body that is JSON is nothing else. */
export const reactRequest = z
  .object(
    {
      args: z
        .any()
        .optional()
        .meta({
          description:
            "What the code gets as `args`: by the formula's request parameters, cast to their types where that is possible; what they do not name is passed on as it is. Texts may hold expressions over tokens, at most 100 of them: a text that is exactly one expression takes the value as it is, with all of a card.",
          examples: [{ card: `{{ ${cardTokenId} }}` }],
        }),
    },
    'the body must be an object with args',
  )
  .meta({ id: 'ReactRequest', description: 'An invocation.' })
  .nullish();

const logLevels = ['debug', 'log', 'info', 'warn', 'error'];

export const reactResponse = z
  .object({
    tokens: z
      .any()
      .optional()
      .meta({
        description: 'What the code returned under `tokenize`, tokenized: as POST /tokenize answers it.',
        examples: [genericTokenId],
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
              description: 'By which function of the console.',
              'x-extensible-enum': logLevels,
              example: 'log',
            }),
            text: z.string().meta({ description: 'What the code wrote.', example: 'charging example-shop' }),
          })
          .meta({ id: 'CodeLogLine', description: 'A line that code wrote to its console.' }),
      )
      .optional()
      .meta({
        description: 'What the code wrote to its console, card-like digits masked. Of a development server only.',
      }),
  })
  .meta({ id: 'ReactorResponse', description: 'The result of the code. What it did not return is left out.' });

/** What an invocation may fail with beside what its code throws, which has a status of its own. */
export const reactFailures = [...bodyFailures, 404, 408] as const;
const { SHOP } = exampleReactor.configuration;

export const reactExamples: { request: Examples; response: Examples } = {
  request: {
    card: { summary: 'A card, opened for the code', value: { args: { card: `{{ ${cardTokenId} }}` } } },
  },

  response: {
    card: { summary: 'What the code made of it', value: { raw: { shop: SHOP, last4: '4242' } } },
  },
};
