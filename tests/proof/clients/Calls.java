// Calls the service through the client that openapi-generator makes for Java, with the HTTP client of
// the JDK. javac checks this file; test_generators.py runs it.
import java.time.OffsetDateTime;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.TasksApi;
import org.openapitools.client.model.Task;
import org.openapitools.client.model.TaskChanges;
import org.openapitools.client.model.TaskInput;
import org.openapitools.client.model.TaskPage;
import org.openapitools.client.model.TaskStatus;

public class Calls {
  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("URL"));
    String token = System.getenv("TOKEN");
    client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + token));
    TasksApi tasks = new TasksApi(client);

    TaskInput input = new TaskInput().title("Call Ada").dueDate(OffsetDateTime.parse("2036-05-02T15:00:00Z"));
    Task created = tasks.createTask(input, "once-in-java");
    OffsetDateTime due = created.getDueDate();
    System.out.println(created.getTitle() + " " + due.toInstant() + " " + created.getVersion());

    TaskPage page = tasks.listTasks(null, null, null, null, "none", null, null);
    System.out.println(page.getData().size() + " " + page.getData().get(0).getStatus());

    TaskChanges changes = new TaskChanges().title("Call Ada").status(TaskStatus.DONE);
    Task changed = tasks.updateTask(created.getId(), changes, null, "\"1\"");
    System.out.println(changed.getStatus() + " " + changed.getVersion());
    try {
      tasks.updateTask(created.getId(), changes, null, "\"1\"");
    } catch (ApiException error) {
      System.out.println(error.getCode());
    }
    tasks.deleteTask(created.getId(), null, null);
  }
}
