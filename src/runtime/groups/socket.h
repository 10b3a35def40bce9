// A TCP connection that sends and receives whole messages, or throws Error.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace coil::runtime::groups {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&&) noexcept;
  Socket& operator=(Socket&&) noexcept;
  ~Socket();

  /// Tries again until the time is over: a server may start later than its clients.
  static Socket connect(const std::string& host, int port, std::chrono::milliseconds timeout);
  /// On all addresses of this machine. Throws Error when the port is taken.
  static Socket listen(int port);
  /// The next client; one with `ok()` false when the listening socket was closed.
  Socket accept() const;

  bool ok() const { return fd_ >= 0; }
  void send(const void* data, std::size_t bytes) const;
  /// Throws Error when the other side closes, or sends nothing for the time set.
  void receive(void* data, std::size_t bytes) const;
  void set_timeout(std::chrono::milliseconds) const;
  /// The address of this side, as text.
  std::string local_address() const;

  template <class T>
  void send(T value) const {
    send(&value, sizeof value);
  }
  template <class T>
  T receive() const {
    T value;
    receive(&value, sizeof value);
    return value;
  }
  // Texts with their length in front, in 8 bytes.
  void send_text(const std::string&) const;
  std::string receive_text() const;

 private:
  int fd_ = -1;
};

}  // namespace coil::runtime::groups
