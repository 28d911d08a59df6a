/** Every method and accessor of a class but these throws once its object is destroyed, as those of native objects do. */
export function throwsWhenDestroyed(
  { prototype }: { readonly prototype: { isDestroyed(): boolean } },
  except: readonly string[] = [],
): void {
  const members = Object.entries(Object.getOwnPropertyDescriptors(prototype))
  for (const [name, member] of members) {
    if (['constructor', 'isDestroyed', ...except].includes(name)) continue
    const guarded = <F extends (...args: never[]) => unknown>(work: F) =>
      function (this: { isDestroyed(): boolean }, ...args: Parameters<F>): unknown {
        if (this.isDestroyed()) throw new TypeError('Object has been destroyed')
        return Reflect.apply(work, this, args)
      }
    const getter = Reflect.get(member, 'get') as (() => unknown) | undefined
    Object.defineProperty(prototype, name, {
      ...member,
      ...(typeof member.value === 'function' && { value: guarded(member.value as () => unknown) }),
      ...(getter && { get: guarded(getter) }),
    })
  }
}
