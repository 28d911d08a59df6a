// A SAMPLE, not macmon: it prints lines as `macmon pipe` does, and makes up every watt. The argument is the interval in milliseconds.
import process from 'node:process'
import { setInterval } from 'node:timers'

const intervalMs = Number(process.argv[2])
/** An M-series Mac that generates: around these watts, up and down within a minute. */
const typical = { cpu: 6, gpu: 22, ane: 0 }

function print() {
  const swing = 1 + 0.15 * Math.sin((2 * Math.PI * process.uptime()) / 60)
  const [cpu, gpu, ane] = [typical.cpu, typical.gpu, typical.ane].map((watts) => watts * swing)
  const all = cpu + gpu + ane
  process.stdout.write(
    `${JSON.stringify({ all_power: all, cpu_power: cpu, gpu_power: gpu, ane_power: ane, sys_power: all + 8 })}\n`,
  )
}

print()
setInterval(print, intervalMs)
