#include "runtime/groups/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "support/error.h"

namespace coil::runtime::groups {
namespace {

constexpr std::uint64_t kLongestText = 1U << 26;

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Whether the error is of a connection that ended before it was taken: the next one is not concerned.
bool is_passing(int error) { return error == EINTR || error == ECONNABORTED || error == EPROTO; }

/// Whether the process or the machine lacks descriptors or memory at the moment.
bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

int try_connect(const addrinfo* addresses) {
  for (const addrinfo* a = addresses; a; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    if (::connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    ::close(fd);
  }
  return -1;
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket Socket::connect(const std::string& host, int port, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const addrinfo hints{.ai_flags = 0,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  for (;;) {
    addrinfo* found = nullptr;
    int fd = -1;
    const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    const std::string why = failed ? ::gai_strerror(failed) : "";
    if (!failed) {
      fd = try_connect(found);
      ::freeaddrinfo(found);
    }
    if (fd >= 0) {
      send_at_once(fd);
      return Socket(fd);
    }
    if (std::chrono::steady_clock::now() >= deadline)
      fail("the store at {}:{} is out of reach{}", host, port, why.empty() ? "" : " (" + why + ")");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Socket Socket::listen(int port) {
  Socket made(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool six = made.ok();
  if (!six) made = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1, off = 0;
  ::setsockopt(made.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  any6.sin6_addr = in6addr_any;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  if (six) ::setsockopt(made.fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const int bound = six ? ::bind(made.fd_, reinterpret_cast<const sockaddr*>(&any6), sizeof any6)
                        : ::bind(made.fd_, reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  if (bound != 0 || ::listen(made.fd_, SOMAXCONN) != 0)
    fail("the store cannot listen on port {}: {}", port, std::strerror(errno));
  return made;
}

Socket Socket::accept() const {
  for (;;) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && is_passing(errno)) continue;
    if (fd < 0 && is_shortage(errno)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (fd >= 0) send_at_once(fd);
    return Socket(fd);
  }
}

void Socket::send(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(fd_, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("the connection to the store broke: {}", std::strerror(errno));
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void Socket::receive(void* data, std::size_t bytes) const {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(fd_, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) fail("the store's side closed the connection");
    if (n < 0) fail("the store does not answer: {}", std::strerror(errno));
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void Socket::set_timeout(std::chrono::milliseconds timeout) const {
  const timeval t{.tv_sec = timeout.count() / 1000, .tv_usec = (timeout.count() % 1000) * 1000};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

std::string Socket::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST];
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return {};
  std::string found = text;
  constexpr std::string_view kMapped = "::ffff:";
  return found.starts_with(kMapped) ? found.substr(kMapped.size()) : found;
}

void Socket::send_text(const std::string& text) const {
  send(std::uint64_t{text.size()});
  send(text.data(), text.size());
}

std::string Socket::receive_text() const {
  const auto size = receive<std::uint64_t>();
  if (size > kLongestText) fail("the store's side sent a text of {} bytes", size);
  std::string text(size, '\0');
  receive(text.data(), text.size());
  return text;
}

}  // namespace coil::runtime::groups
