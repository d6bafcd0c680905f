"""The walk with the client of openapi-python-client."""

import os

from strongroom_client import AuthenticatedClient
from strongroom_client.api.applications import create_application
from strongroom_client.api.tokens import create_token, detokenize, get_token, list_tokens, search_tokens
from strongroom_client.models import (
    AccessRule,
    Application,
    CardData,
    CardTokenRequest,
    CreateApplicationRequest,
    SearchRequest,
    Token,
    TokenMetadata,
    TokenPage,
)


def client_of(api_key: str) -> AuthenticatedClient:
    return AuthenticatedClient(
        base_url=os.environ["VAULT_URL"], token=api_key, prefix="", auth_header_name="SVC-API-KEY"
    )


client = client_of(os.environ["SVC_API_KEY"])
metadata = TokenMetadata.from_dict({"order": "openapi-python-client"})
card = CardData(number="5555555555554444", expiration_month=8, expiration_year=2031)
made = create_token.sync(client=client, body=CardTokenRequest(type_="card", data=card, metadata=metadata))
assert isinstance(made, Token), made

read = get_token.sync(made.id, client=client)
assert isinstance(read, Token), read
assert read.data["number"] == "XXXXXXXXXXXX4444", read

page = list_tokens.sync(client=client, id=[made.id])
assert isinstance(page, TokenPage) and [token.id for token in page.data] == [made.id], page

found = search_tokens.sync(client=client, body=SearchRequest(query="metadata.order:openapi-python-client"))
assert isinstance(found, TokenPage) and [token.id for token in found.data] == [made.id], found

rule = AccessRule(
    description="Raw cards",
    priority=1,
    container="/pci/",
    transform="reveal",
    permissions=["token:read"],
)
reader = create_application.sync(client=client, body=CreateApplicationRequest(name="Raw cards", rules=[rule]))
assert isinstance(reader, Application), reader

body = {"pan": f"{{{{ {made.id} | json: '$.number' }}}}"}
shown = detokenize.sync(client=client_of(reader.key), body=body)
assert shown == {"pan": "5555555555554444"}, shown
