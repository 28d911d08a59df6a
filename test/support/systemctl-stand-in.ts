import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

/**
 * In place of systemd's own `systemctl --user`, in `folder`: starts what the unit says in a session of its own, tells its process, and ends
 * it with SIGTERM. Never starts anything anew. What it was asked is in `calls`.
 */
export async function writeSystemctl(folder: string, unit: string): Promise<{ readonly calls: string }> {
  const [calls, pidFile] = [path.join(folder, 'calls'), path.join(folder, 'pid')]
  const script = `#!/bin/sh
PATH=/usr/bin:/bin
echo "$*" >> '${calls}'
pid=$(cat '${pidFile}' 2>/dev/null)
state=$(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null)
[ -n "$pid" ] && [ -n "$state" ] && [ "$state" != Z ] || pid=0
case "$*" in
  *--property=Version*) echo Version=257;;
  *' show '*)
    if [ -e '${unit}' ]; then loaded=loaded; else loaded=not-found; fi
    printf 'LoadState=%s\\nUnitFileState=enabled\\nMainPID=%s\\nExecMainExitTimestampMonotonic=0\\n' "$loaded" "$pid";;
  *' start '*)
    line=$(sed -n 's/^ExecStart=:*//p' '${unit}')
    variables=$(sed -n 's/^Environment=//p' '${unit}' | tr '\\n' ' ')
    out=$(sed -n 's/^StandardError=append://p' '${unit}')
    setsid sh -c "echo \\$\\$ > '${pidFile}'; exec env -i $variables $line" </dev/null >>"$out" 2>&1 &
    while [ ! -s '${pidFile}' ]; do sleep 0.05; done;;
  *' stop '*) [ "$pid" = 0 ] || kill "$pid";;
esac
`
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'systemctl'), script, { mode: 0o755 })
  return { calls }
}
