// Starts the double in a container.
import { GenericContainer, Wait } from "testcontainers";

export const container = await new GenericContainer("task-service-double:1.3.0")
  .withEnvironment({ TASK_SERVICE_TOKEN: "tmw_api_of-our-tests", TASK_SERVICE_CONTROL_PATH: "control" })
  .withExposedPorts(8000, 8001)
  .withWaitStrategy(Wait.forHttp("/healthz", 8000))
  .start();
export const url = `http://${container.getHost()}:${container.getMappedPort(8000)}/api`;
