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
            "The arguments for the code. The server checks those that the formula's request parameters name, and casts them to their types; others it passes on as they are. Texts may hold expressions, over at most 100 tokens. A text that is exactly one expression becomes the value as it is, such as the whole object of a card.",
          examples: [{ card: `{{ ${cardTokenId} }}` }],
        }),
    },
    'the body must be an object with args',
  )
  .meta({ id: 'ReactRequest', description: 'The invocation of a reactor.' })
  .nullish();

const logLevels = ['debug', 'log', 'info', 'warn', 'error'];

export const reactResponse = z
  .object({
    tokens: z
      .any()
      .optional()
      .meta({
        description: 'The tokens of what the code returned under `tokenize`, as POST /tokenize answers them.',
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

/** What an invocation may fail with beside what its code throws, which has a status of its own. */
export const reactFailures = [...bodyFailures, 404, 408] as const;
const { SHOP } = exampleReactor.configuration;

export const reactExamples: { request: Examples; response: Examples } = {
  request: {
    card: { summary: 'The value of a card as an argument', value: { args: { card: `{{ ${cardTokenId} }}` } } },
  },

  response: {
    card: { summary: 'The last digits of the card', value: { raw: { shop: SHOP, last4: '4242' } } },
  },
};
