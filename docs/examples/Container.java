// The lines of a test that start the double in a container.
GenericContainer<?> container = new GenericContainer<>("task-service-double:1.3.0")
    .withEnv("TASK_SERVICE_TOKEN", "tmw_api_of-our-tests")
    .withEnv("TASK_SERVICE_CONTROL_PATH", "control")
    .withExposedPorts(8000, 8001)
    .waitingFor(Wait.forHttp("/healthz").forPort(8000));
container.start();
String url = "http://" + container.getHost() + ":" + container.getMappedPort(8000) + "/api";
