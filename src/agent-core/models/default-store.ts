import { isAbsolute, join } from 'node:path'

/** Where models are kept unless `--model-store` says otherwise: a folder that outlives a reboot (the Go agent's default is below /tmp). */
export function defaultModelStore(
  platform: NodeJS.Platform,
  env: Readonly<Record<string, string | undefined>>,
  home: string,
): string {
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'Metalbar', 'models')
  const data = env['XDG_DATA_HOME'] ?? ''
  return join(isAbsolute(data) ? data : join(home, '.local', 'share'), 'metalbar', 'models')
}
