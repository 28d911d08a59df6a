# Written by tasks/package/homebrew.ts of the release.
cask "metalbar" do
  arch arm: "arm64", intel: "x64"

  version "1.2.3"
  sha256 arm:   "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd",
         intel: "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"

  url "https://downloads.example/v1.2.3/Metalbar-1.2.3-#{arch}.dmg"
  name "Metalbar"
  desc "Makes a Mac with Apple silicon a Kubernetes inference node"
  homepage "https://metalbar.example"

  auto_updates true
  depends_on macos: ">= :ventura"

  app "Metalbar.app"
  binary "#{appdir}/Metalbar.app/Contents/Resources/bin/metal-agent"
  binary "#{appdir}/Metalbar.app/Contents/Resources/bin/metal-agent", target: "llmkube-metal-agent"

  uninstall quit: "dev.metalbar.app"

  zap trash: [
    "~/Library/Application Support/Metalbar",
    "~/Library/Logs/Metalbar",
    "~/Library/Preferences/dev.metalbar.app.plist",
  ]
end
