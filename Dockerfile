FROM golang:1.26 AS build
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /headpond ./cmd/headpond \
    && mkdir -p /out/data /out/tmp && chmod 1777 /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /headpond /headpond
COPY --from=build /out/tmp /tmp
# Not root: the data volume belongs to the broker's user.
COPY --from=build --chown=65532:65532 /out/data /var/lib/headpond
USER 65532:65532
VOLUME /var/lib/headpond
EXPOSE 9092 9644
# Inside a container loopback is nobody's address, so the broker listens on all of them. Clients are told the address by
# which they reached it; set HEADPOND_ADVERTISE where that is not the one they should use.
ENV HEADPOND_DATA_DIR=/var/lib/headpond HEADPOND_LISTEN=0.0.0.0:9092 HEADPOND_ADMIN=0.0.0.0:9644
ENTRYPOINT ["/headpond"]
CMD ["serve"]
