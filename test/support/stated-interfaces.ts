/** Addresses of IPv4 by the name of their interface. */
type Addresses = Readonly<Record<string, string>>

/** For `NODE_OPTIONS`: on its machine the program finds these addresses and no others. Programs that it starts find what is there. */
export function statedInterfaces(addresses: Addresses): string {
  const family = { netmask: '255.255.255.0', family: 'IPv4', mac: '00:00:00:00:00:00', internal: false }
  const stated = Object.fromEntries(
    Object.entries(addresses).map(([name, address]) => [name, [{ address, ...family }]]),
  )
  const script = `
    import { syncBuiltinESMExports } from 'node:module'
    import os from 'node:os'
    delete process.env.NODE_OPTIONS
    os.networkInterfaces = () => (${JSON.stringify(stated)})
    syncBuiltinESMExports()`
  return `--import=data:text/javascript,${encodeURIComponent(script)}`
}
