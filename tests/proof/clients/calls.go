// Calls the service through the client that openapi-generator makes for Go, which needs only the
// standard library. The compiler and go vet check this file; test_clients.py runs it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	service "example.com/client/taskservice"
)

func require(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	settings := service.NewConfiguration()
	settings.Servers = service.ServerConfigurations{{URL: os.Getenv("URL")}}
	client := service.NewAPIClient(settings)
	caller := context.WithValue(context.Background(), service.ContextAccessToken, os.Getenv("TOKEN"))
	tasks := client.TasksAPI

	me, _, err := client.MeAPI.GetMe(caller).Execute()
	require(err)
	settings.AddDefaultHeader("Workspace-Id", me.Workspace.Get().Id)

	input := service.NewTaskInput("Call Ada")
	input.SetDueDate(time.Date(2036, 5, 2, 15, 0, 0, 0, time.UTC))
	created, response, err := tasks.CreateTask(caller).TaskInput(*input).IdempotencyKey("once-in-go").Execute()
	require(err)
	due := created.DueDate.Get()
	fmt.Println(response.StatusCode, created.Title, due.UTC().Format("15:04"), created.Version)

	page, _, err := tasks.ListTasks(caller).Assignee("none").Execute()
	require(err)
	fmt.Println(len(page.Data), page.Data[0].Status, page.NextCursor.Get() == nil)

	changes := service.TaskChanges{
		Title:  &created.Title,
		Status: service.DONE.Ptr(),
	}
	tag := response.Header.Get("ETag")
	changed, _, err := tasks.UpdateTask(caller, created.Id).TaskChanges(changes).IfMatch(tag).Execute()
	require(err)
	fmt.Println(changed.Status, changed.CompletedAt.IsSet(), changed.Version)

	_, response, err = tasks.UpdateTask(caller, created.Id).TaskChanges(changes).IfMatch(tag).Execute()
	stale := err.(*service.GenericOpenAPIError).Model().(service.ErrorResponse)
	fmt.Println(response.StatusCode, stale.Status, stale.Current["status"], stale.Current["version"])

	response, err = tasks.DeleteTask(caller, created.Id).Execute()
	require(err)
	fmt.Println(response.StatusCode == http.StatusNoContent)
}
