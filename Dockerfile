# Two stages: the first one builds the wheel, the second one has nothing but the wheel and its dependencies.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
RUN pip install --no-cache-dir build
COPY . .
RUN python -m build --outdir /dist

FROM python:3.13-slim-bookworm
COPY --from=build /dist/*.whl /tmp/
RUN pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl
USER 65532:65532
ENV HOST=0.0.0.0 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
ENTRYPOINT ["task-service"]
CMD ["web"]
