/** Whether `medvqa view` serves this page: else it is a file, and there is no server to ask. */
export const isServed = (): boolean => document.querySelector('meta[name="medvqa-view"]') !== null;
