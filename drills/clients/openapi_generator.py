"""The walk with the client of OpenAPI Generator for Python."""

import os

from strongroom_client import (
    AccessRule,
    ApiClient,
    ApplicationsApi,
    CardData,
    CardTokenRequest,
    Configuration,
    CreateApplicationRequest,
    CreateTokenRequest,
    SearchRequest,
    TokensApi,
)


def client_of(api_key: str) -> ApiClient:
    return ApiClient(Configuration(host=os.environ["VAULT_URL"], api_key={"ApiKey": api_key}))


client = client_of(os.environ["SVC_API_KEY"])
tokens = TokensApi(client)
card = CardData(number="5555555555554444", expiration_month=8, expiration_year=2031)
request = CardTokenRequest(type="card", data=card, metadata={"order": "openapi-generator-python"})
made = tokens.create_token(CreateTokenRequest(request))

read = tokens.get_token(made.id)
assert read.data["number"] == "XXXXXXXXXXXX4444", read

page = tokens.list_tokens(id=[made.id])
assert [token.id for token in page.data] == [made.id], page

found = tokens.search_tokens(SearchRequest(query="metadata.order:openapi-generator-python"))
assert [token.id for token in found.data] == [made.id], found

rule = AccessRule(
    description="Raw cards", priority=1, container="/pci/", transform="reveal", permissions=["token:read"]
)
reader = ApplicationsApi(client).create_application(CreateApplicationRequest(name="Raw cards", rules=[rule]))

body = {"pan": f"{{{{ {made.id} | json: '$.number' }}}}"}
shown = TokensApi(client_of(reader.key.get_secret_value())).detokenize(body)
assert shown == {"pan": "5555555555554444"}, shown
