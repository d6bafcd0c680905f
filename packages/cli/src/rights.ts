// An application as the functions of the server that say rights in words take it.
import type { Application } from '@strongroom/node';
import type { Rights } from '../../../src/modules/access/rights-summary.ts';

export type RightsRecord = Pick<
  Application,
  'type' | 'permissions' | 'rules' | 'allowed_hosts' | 'allowed_origins' | 'daily_reveals' | 'daily_uses' | 'containers'
>;

export const rightsOf = (application: RightsRecord): Rights =>
  ({ ...application, container: application.containers?.[0] }) as Rights;
