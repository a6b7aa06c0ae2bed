# Two stages: the first one builds the wheel, the second one has nothing but the wheel and its dependencies,
# in the versions and with the hashes of requirements.txt.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
RUN pip install --no-cache-dir build==1.3.0 setuptools==80.9.0
COPY . .
RUN python -m build --no-isolation --wheel --outdir /dist

FROM python:3.13-slim-bookworm
COPY requirements.txt /tmp/
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/requirements.txt
COPY --from=build /dist/*.whl /tmp/
RUN pip install --no-cache-dir --no-deps /tmp/*.whl && rm /tmp/*.whl /tmp/requirements.txt
USER 65532:65532
ENV HOST=0.0.0.0 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
ENTRYPOINT ["task-service"]
CMD ["web"]
