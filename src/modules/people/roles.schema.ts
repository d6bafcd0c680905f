// The role in a request, and what the document says of roles.
import { z } from 'zod';
import { describeRole, givenRoles, roles } from './roles.ts';

export const ROLES_IN_DOCUMENTS = `${roles.map((role) => `\`${role}\`: ${describeRole(role)}`).join('. ')}.`;

export const givenRoleSchema = z
  .enum(givenRoles, `must be ${givenRoles.slice(0, -1).join(', ')} or ${givenRoles.at(-1)}`)
  .meta({ 'x-extensible-enum': [...givenRoles] });
