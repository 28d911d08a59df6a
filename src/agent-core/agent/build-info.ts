/** Written into the bundle by its build; absent when the source runs as it is. */
declare const METAL_AGENT_VERSION: string
declare const METAL_AGENT_COMMIT: string
declare const METAL_AGENT_BUILD_DATE: string

export interface BuildInfo {
  readonly version: string
  readonly commit: string
  readonly date: string
}

export const buildInfo: BuildInfo = {
  version: typeof METAL_AGENT_VERSION === 'string' ? METAL_AGENT_VERSION : 'dev',
  commit: typeof METAL_AGENT_COMMIT === 'string' ? METAL_AGENT_COMMIT : 'unknown',
  date: typeof METAL_AGENT_BUILD_DATE === 'string' ? METAL_AGENT_BUILD_DATE : 'unknown',
}

export const versionText = ({ version, commit, date }: BuildInfo) =>
  `metal-agent ${version}\n  git commit: ${commit}\n  build date: ${date}\n`
