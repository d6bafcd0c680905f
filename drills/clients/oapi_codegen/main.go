// The walk with the client of oapi-codegen.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	vault "example.com/strongroom/client"
)

func clientOf(apiKey string) *vault.ClientWithResponses {
	authenticate := func(_ context.Context, request *http.Request) error {
		request.Header.Set("SVC-API-KEY", apiKey)
		return nil
	}
	return must(vault.NewClientWithResponses(os.Getenv("VAULT_URL"), vault.WithRequestEditorFn(authenticate)))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

// Takes the typed body of an answer. It is nil where the answer has another status.
func bodyOf[T any](body *T, answer []byte) T {
	if body == nil {
		log.Panicf("another answer: %s", answer)
	}
	return *body
}

func onlyToken(page vault.TokenPage, id string) {
	if len(page.Data) != 1 || page.Data[0].Id != id {
		log.Panicf("not the token alone: %+v", page.Data)
	}
}

func main() {
	ctx := context.Background()
	client := clientOf(os.Getenv("SVC_API_KEY"))
	var request vault.CreateTokenRequest
	card := vault.CardTokenRequest{
		Type:     "card",
		Data:     vault.CardData{Number: "5555555555554444"},
		Metadata: &vault.TokenMetadata{"order": "oapi-codegen"},
	}
	if err := request.FromCardTokenRequest(card); err != nil {
		log.Panic(err)
	}
	created := must(client.CreateTokenWithResponse(ctx, nil, request))
	id := bodyOf(created.JSON201, created.Body).Id

	read := must(client.GetTokenWithResponse(ctx, id, nil))
	if data, _ := bodyOf(read.JSON200, read.Body).Data.(map[string]any); data["number"] != "XXXXXXXXXXXX4444" {
		log.Panicf("not the mask: %v", data)
	}
	list := must(client.ListTokensWithResponse(ctx, &vault.ListTokensParams{Id: &[]string{id}}))
	onlyToken(bodyOf(list.JSON200, list.Body), id)
	query := "metadata.order:oapi-codegen"
	found := must(client.SearchTokensWithResponse(ctx, nil, vault.SearchRequest{Query: &query}))
	onlyToken(bodyOf(found.JSON200, found.Body), id)

	description, container := "Raw cards", "/pci/"
	rule := vault.AccessRule{
		Description: &description,
		Priority:    1,
		Container:   &container,
		Transform:   "reveal",
		Permissions: []string{"token:read"},
	}
	application := vault.CreateApplicationRequest{Name: "Raw cards", Rules: &[]vault.AccessRule{rule}}
	made := must(client.CreateApplicationWithResponse(ctx, nil, application))
	key := bodyOf(made.JSON201, made.Body).Key
	if key == nil {
		log.Panicf("no key: %s", made.HTTPResponse.Status)
	}

	expression := map[string]any{"pan": fmt.Sprintf("{{ %s | json: '$.number' }}", id)}
	shown := must(clientOf(*key).DetokenizeWithResponse(ctx, nil, expression))
	if data, _ := bodyOf(shown.JSON200, shown.Body).(map[string]any); data["pan"] != "5555555555554444" {
		log.Panicf("not the value: %s", shown.Body)
	}
}
