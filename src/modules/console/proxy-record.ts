// A stored proxy as the API returns it to the console's pages.
export type Proxy = {
  id: string;
  key?: string;
  previous_key_ends_at?: string;
  name: string;
  destination_url: string;
  require_auth: boolean;
  expressions: 'on' | 'off';
  timeout_seconds: number;
  request_transform?: { code: string };
  response_transform?: { code: string };
  application_id?: string;
  configuration: Record<string, unknown> | null;
  allowed_hosts?: string[];
  client_certificate?: { fingerprint_sha256: string; expires_at: string };
  created_at: string;
};
