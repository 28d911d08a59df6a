/** An event that a listener may prevent. */
export class PreventableEvent {
  defaultPrevented = false

  preventDefault(): void {
    this.defaultPrevented = true
  }
}
