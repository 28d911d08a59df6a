/** What Homebrew is told of a release. */
export interface HomebrewRelease {
  readonly version: string
  /** https address of the folder that the files are downloaded from. */
  readonly downloads: string
  readonly homepage: string
}

/** What LLMKube's guides call the agent. */
export const goAgentName = 'llmkube-metal-agent'

/** In hex. */
interface Hashes {
  readonly arm64: string
  readonly x64: string
}

/** What Homebrew takes of a release, by the names of its files; `hash` answers the SHA-256 of one of them. */
export async function homebrewFiles(
  release: HomebrewRelease,
  hash: (name: string) => Promise<string>,
): Promise<readonly (readonly [name: string, text: string])[]> {
  const hashes = async (nameOf: (arch: keyof Hashes) => string) => ({
    arm64: await hash(nameOf('arm64')),
    x64: await hash(nameOf('x64')),
  })
  return [
    ['metal-agent.rb', formula(release, await hashes(commandArchive))],
    ['metalbar.rb', cask(release, await hashes((arch) => `Metalbar-${release.version}-${arch}.dmg`))],
  ]
}

const commandArchive = (arch: keyof Hashes): string => `metal-agent-darwin-${arch}.tar.gz`

const description = 'Makes a Mac with Apple silicon a Kubernetes inference node'

/** `Formula/metal-agent.rb`: the command alone. */
function formula(release: HomebrewRelease, sha256: Hashes): string {
  const { version, homepage } = release
  const archive = (arch: keyof Hashes): string =>
    [
      `      url ${quoted(`${release.downloads}/${commandArchive(arch)}`)}`,
      `      sha256 ${quoted(sha256[arch])}`,
    ].join('\n')
  return `# Written by tasks/package/homebrew.ts of the release.
class MetalAgent < Formula
  desc ${quoted(description)}
  homepage ${quoted(homepage)}
  version ${quoted(version)}
  license "Apache-2.0"

  on_macos do
    on_arm do
${archive('arm64')}
    end
    on_intel do
${archive('x64')}
    end
  end

  def install
    bin.install "metal-agent"
    bin.install_symlink bin/"metal-agent" => ${quoted(goAgentName)}
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
`
}

/** `Casks/metalbar.rb`: the app, with the command in it. What it leaves in the home folder is removed by `zap` alone. */
function cask({ version, downloads, homepage }: HomebrewRelease, sha256: Hashes): string {
  return `# Written by tasks/package/homebrew.ts of the release.
cask "metalbar" do
  arch arm: "arm64", intel: "x64"

  version ${quoted(version)}
  sha256 arm:   ${quoted(sha256.arm64)},
         intel: ${quoted(sha256.x64)}

  url ${quoted(`${downloads}/Metalbar-${version}-`).slice(0, -1)}#{arch}.dmg"
  name "Metalbar"
  desc ${quoted(description)}
  homepage ${quoted(homepage)}

  auto_updates true
  depends_on macos: ">= :ventura"

  app "Metalbar.app"
  binary "#{appdir}/Metalbar.app/Contents/Resources/bin/metal-agent"
  binary "#{appdir}/Metalbar.app/Contents/Resources/bin/metal-agent", target: ${quoted(goAgentName)}

  uninstall quit: "dev.metalbar.app"

  zap trash: [
    "~/Library/Application Support/Metalbar",
    "~/Library/Logs/Metalbar",
    "~/Library/Preferences/dev.metalbar.app.plist",
  ]
end
`
}

/** As a text of Ruby, in which `#{` would start a calculation. */
const quoted = (text: string): string => `"${text.replaceAll(/["\\#]/g, '\\$&')}"`
