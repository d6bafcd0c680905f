// The services that functions of the webhooks module need.
import type { PeopleContext } from '../people/context.ts';

export type WebhooksContext = PeopleContext;
