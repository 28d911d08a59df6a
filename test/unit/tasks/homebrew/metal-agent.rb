# Written by tasks/package/homebrew.ts of the release.
class MetalAgent < Formula
  desc "Makes a Mac with Apple silicon a Kubernetes inference node"
  homepage "https://metalbar.example"
  version "1.2.3"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://downloads.example/v1.2.3/metal-agent-darwin-arm64.tar.gz"
      sha256 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    end
    on_intel do
      url "https://downloads.example/v1.2.3/metal-agent-darwin-x64.tar.gz"
      sha256 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
    end
  end

  def install
    bin.install "metal-agent"
    bin.install_symlink bin/"metal-agent" => "llmkube-metal-agent"
    man1.install "metal-agent.1"
    doc.install "README.md", "THIRD_PARTY_NOTICES"
  end

  service do
    run [opt_bin/"metal-agent"]
    keep_alive successful_exit: false
    process_type :interactive
    environment_variables PATH: std_service_path_env
    log_path var/"log/metal-agent.log"
    error_log_path var/"log/metal-agent.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/metal-agent --version")
  end
end
