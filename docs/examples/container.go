// The lines of a test that start the double in a container.
container, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
    ContainerRequest: testcontainers.ContainerRequest{
        Image:        "task-service-double:1.3.0",
        Env:          map[string]string{"TASK_SERVICE_TOKEN": "tmw_api_of-our-tests", "TASK_SERVICE_CONTROL_PATH": "control"},
        ExposedPorts: []string{"8000/tcp", "8001/tcp"},
        WaitingFor:   wait.ForHTTP("/healthz").WithPort("8000/tcp"),
    },
    Started: true,
})
endpoint, err := container.PortEndpoint(ctx, "8000/tcp", "http")
