// Wire shapes of /reactors. Whether a configuration fits its formula is decided in runtime/reactors.ts.
import { z } from 'zod';
import { applicationTypes } from '../../access/permissions.ts';
import { nameSchema } from '../../access/tenants.ts';
import { formulaRecord } from '../../http/formula-record.ts';
import { APPLICATION_ID, CREATED_AT, exampleFormula, exampleReactor, TENANT_ID } from '../../http/openapi-examples.ts';
import { nameQuery, onlyPage, pageQuery, pageSchema, repeated } from '../../http/pagination.ts';
import { applicationReference, type Examples } from '../../http/schemas.ts';
import { configurationKeywords } from '../../runtime/formula-fields.ts';
import { CONFIGURATION_TEXT_LENGTH_MAX } from '../../runtime/reactors.ts';

const { id: EXAMPLE_ID } = exampleReactor;

const date = (description: string) => z.string().meta({ description, format: 'date-time', example: CREATED_AT });

const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

/** However it is spelled, it is one id. */
const givenUuid = z.guid('must be a UUID').toLowerCase();
const fields = {
  name: nameSchema.meta({ description: 'The name of the reactor.', example: exampleReactor.name }),
  configuration: z
    .record(z.string(), z.any(), 'must be an object')
    .meta(configurationKeywords)
    .nullish()
    .transform((configuration) => (configuration ?? {}) as Record<string, unknown>)
    .meta({
      description: `A value for each name of the formula's contract, of its type, and no other: text of at most ${CONFIGURATION_TEXT_LENGTH_MAX} characters, numbers and booleans. May be left out where the contract is empty.`,
      example: exampleReactor.configuration,
    }),
  application: applicationReference.nullish().meta({
    description:
      'The application whose permissions the code has. Who creates or changes the reactor must hold all that it has. Left out: none.',
  }),
};

const formulaReference = z
  .object(
    { id: givenUuid.meta({ description: 'The id of the formula.', example: exampleFormula.id }) },
    'must be an object with an id',
  )
  .meta({ id: 'FormulaReference', description: 'A formula, named by its id.' });

const bodyError = 'the body must be an object';

/** The body as the rule takes it. */
const inputOf = <
  T extends { application?: { id?: string | null | undefined } | null | undefined; formula?: { id: string } | null },
>({
  application,
  formula,
  ...rest
}: T) => ({ ...rest, application_id: application?.id ?? undefined, formula_id: formula?.id });

export const newReactor = z
  .object(
    {
      ...fields,
      formula: formulaReference.meta({
        description: 'The formula of the reactor: an official one, or one of the tenant.',
      }),
    },
    bodyError,
  )
  .transform((body) => ({ ...inputOf(body), formula_id: body.formula.id }))
  .meta({ id: 'CreateReactorRequest', description: 'A reactor to create.' });

export const reactorChange = z
  .object(
    {
      ...fields,
      formula: formulaReference.nullish().meta({
        description: 'The formula of the reactor. It may be left out, and cannot change: another id is a 400.',
      }),
    },
    bodyError,
  )
  .transform(inputOf)
  .meta({ id: 'UpdateReactorRequest', description: 'The new state of the reactor, as a whole.' });

export const reactorRecord = z
  .object({
    id: uuid('The id of the reactor.', EXAMPLE_ID),
    tenant_id: uuid('The id of the tenant that owns the reactor.', TENANT_ID),
    name: z.string().meta({ description: 'The name of the reactor.', example: exampleReactor.name }),
    formula: formulaRecord,
    configuration: z.record(z.string(), z.any()).meta({
      description: "The values for the formula's contract: text, numbers and booleans.",
      example: exampleReactor.configuration,
    }),
    application: z
      .object({
        id: uuid('The id of the application.', APPLICATION_ID),
        tenant_id: uuid('The id of its tenant.', TENANT_ID),
        name: z.string().meta({ description: 'The name of the application.', example: 'Checkout' }),
        type: z.string().meta({
          description: 'What the application is meant for.',
          'x-extensible-enum': [...applicationTypes],
          example: 'private',
        }),
      })
      .meta({ id: 'ReactorApplication', description: 'The application of a reactor.' })
      .optional()
      .meta({ description: 'The application whose permissions the code has. Left out: none.' }),
    created_by: uuid('The id of the application or user that created it.', APPLICATION_ID).optional(),
    created_at: date('When it was created.'),
    modified_by: uuid('The id of the application or user that changed it last.', APPLICATION_ID).optional(),
    modified_at: date('When it was changed last.').optional(),
  })
  .meta({ id: 'Reactor', description: 'A configured instance of a formula, which a client invokes.' });

export const reactorPage = pageSchema(reactorRecord, 'ReactorPage');

export const reactorParams = z.object({
  id: givenUuid.meta({ description: 'The id of a reactor.', example: EXAMPLE_ID }),
});

export const reactorQuery = z.object({
  ...pageQuery(),
  id: repeated(givenUuid, 'Only these reactors.', EXAMPLE_ID),
  name: nameQuery('Only reactors of this name.', 'Shop*'),
});

const { name, configuration } = exampleReactor;
const asked = { name, configuration, application: { id: APPLICATION_ID } };
const changed = { modified_by: APPLICATION_ID, modified_at: '2026-11-21T09:30:00.000Z' };
const summary = 'A reactor for a shop';

export const newReactorExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: { ...asked, formula: { id: exampleFormula.id } } } },
  response: { shop: { summary, value: exampleReactor } },
};

export const reactorExamples: { response: Examples } = { response: { shop: { summary, value: exampleReactor } } };

export const reactorChangeExamples: { request: Examples; response: Examples } = {
  request: { shop: { summary, value: asked } },
  response: { shop: { summary, value: { ...exampleReactor, ...changed } } },
};

export const reactorPageExamples: { response: Examples } = {
  response: { one: { summary: 'One reactor', value: { pagination: onlyPage(1), data: [exampleReactor] } } },
};
